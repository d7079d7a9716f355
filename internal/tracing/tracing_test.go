package tracing_test

import (
	"context"
	"errors"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"rota/internal/tracing"
)

func TestOffByDefault(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	stop, err := tracing.Start(context.Background(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer stop(context.Background())
	ctx, span := tracing.Span(context.Background(), "attempt", "", false, "turn", "a/1")
	defer span.End(nil)
	if p := tracing.Parent(ctx); p != "" {
		t.Fatalf("a context is stored although tracing is off: %s", p)
	}
	if n := testing.AllocsPerRun(100, func() { tracing.Parent(context.Background()) }); n > 0 {
		t.Errorf("%v allocations for nothing", n)
	}
}

func TestUnknownExporterIsRefused(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
	if _, err := tracing.Start(context.Background(), "test"); err == nil {
		t.Fatal("accepted")
	}
}

// A turn that is handed on stays in the trace of the command that opened it.
func TestHandoffStaysInTheTraceAndIsLinked(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	stop := tracing.Use("test", sdktrace.WithSyncer(memory))
	defer stop(context.Background())

	ctx, command := tracing.Span(context.Background(), "enqueue", "", false)
	stored := tracing.Parent(ctx)
	command.End(nil)
	ctx, first := tracing.Span(context.Background(), "attempt", stored, false, "attempt", "a/1.1")
	handed := tracing.Parent(ctx)
	first.End(errors.New("auth"))
	_, second := tracing.Span(context.Background(), "attempt", handed, true, "attempt", "a/1.2")
	second.End(nil)

	spans := memory.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	trace := spans[0].SpanContext.TraceID()
	for _, s := range spans {
		if s.SpanContext.TraceID() != trace {
			t.Errorf("%s left the trace", s.Name)
		}
	}
	if len(spans[2].Links) != 1 || spans[2].Links[0].SpanContext.SpanID() != spans[1].SpanContext.SpanID() {
		t.Errorf("the handoff is not linked: %v", spans[2].Links)
	}
}
