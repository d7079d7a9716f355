package claude

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"rota/agents/transcript"
)

// question is what waits for a person: whether a tool may be used, or questions
// of the model itself.
type question struct {
	id    string // of the program's request
	title string
	input map[string]json.RawMessage
	asked []string // the model's questions; none when it is about a tool
}

// userQuestion is the tool by which the model asks the user something.
const userQuestion = "AskUserQuestion"

func questionOf(id, tool string, input json.RawMessage) question {
	q := question{id: id, input: map[string]json.RawMessage{}}
	_ = json.Unmarshal(input, &q.input) // a tool without input has none to give back
	var list []struct {
		Question string `json:"question"`
		Options  []struct {
			Label string `json:"label"`
		} `json:"options"`
	}
	if tool == userQuestion && json.Unmarshal(q.input["questions"], &list) == nil && len(list) > 0 {
		var titles []string
		for _, l := range list {
			var labels []string
			for _, o := range l.Options {
				labels = append(labels, o.Label)
			}
			q.asked = append(q.asked, l.Question)
			titles = append(titles, strings.TrimSuffix(l.Question+" ("+strings.Join(labels, ", ")+")", " ()"))
		}
		q.title = strings.Join(titles, " / ")
		return q
	}
	q.title = transcript.Cut(title(block{Name: tool, Input: input}), transcript.MaxTitle-40) + " (yes, no, or why not)"
	return q
}

// answer words a person's answer for the program. What is no plain yes denies a
// tool and says why; it answers each question of the model. A plain no also comes
// when nobody answered: it is passed on as no more than that.
func (q question) answer(text string) (object, error) {
	text = strings.TrimSpace(text)
	yes, no := false, false
	switch strings.ToLower(text) {
	case "":
		return nil, errors.New("the answer is empty; answer yes, no or in words")
	case "yes", "y", "allow", "ok":
		yes = true
	case "no", "n", "deny", "reject":
		no = true
	}
	switch {
	case no && len(q.asked) > 0:
		return deny("The answer is no, or nobody answered. Go on by your own judgement."), nil
	case no:
		return deny("This was not allowed."), nil
	case len(q.asked) > 0:
		return q.answered(text)
	case yes:
		return object{"behavior": "allow", "updatedInput": q.input}, nil
	}
	return deny(text), nil
}

func deny(why string) object { return object{"behavior": "deny", "message": why} }

// answered gives the questions back with their answers.
func (q question) answered(text string) (object, error) {
	answers := map[string]string{}
	for _, asked := range q.asked {
		answers[asked] = text
	}
	b, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	input := maps.Clone(q.input)
	input["answers"] = b
	return object{"behavior": "allow", "updatedInput": input}, nil
}
