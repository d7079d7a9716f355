package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// People read the log too: a duration is written as 1m0s, not as a number of
// nanoseconds, in both forms of the log.
func TestDurationsInTheLog(t *testing.T) {
	for form, want := range map[string]string{"json": `"grace":"1m0s"`, "text": "grace=1m0s"} {
		var out bytes.Buffer
		log := (&Program{stderr: &out}).logger(flags{logs: form})
		log.Info("draining", "runs", 2, "grace", time.Minute)
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("%s: %s", form, out.String())
		}
		if form == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("no JSON: %s", out.String())
		}
	}
}
