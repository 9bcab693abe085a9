package main

import (
	"encoding/json"
	"net/http"

	"github.com/paceline-go/paceline/estimator"
	"github.com/paceline-go/paceline/provider"
	"github.com/paceline-go/paceline/transport"
)

// serveChat answers POST /chat: a prompt, or messages, and a reply.
func (s *server) serveChat(w http.ResponseWriter, r *http.Request) error {
	who, err := s.keys.identify(r)
	if err != nil {
		return err
	}
	body, release, err := s.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	c, err := s.simpleCall(r, who, body)
	if err != nil {
		return err
	}
	if err := s.faults.strike(r, c); err != nil {
		return err
	}
	answer, err := s.whole(r.Context(), w.Header(), c)
	if err != nil {
		return err
	}
	reply, err := replyOf(answer)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, reply)
	return nil
}

// simpleCall makes the call of a request to /chat. It takes no field that it does
// not know: a misspelt tier must not go unnoticed.
func (s *server) simpleCall(r *http.Request, who caller, body []byte) (*call, error) {
	if !json.Valid(body) || !isObject(body[skipSpace(body, 0):]) {
		return nil, &transport.Error{Status: http.StatusBadRequest, Type: transport.InvalidRequest,
			Message: `The body must be a JSON object such as {"prompt":"hello","tier":"paid","max_tokens":50}.`}
	}
	var cl claims
	var model []byte
	if s.models.chat != "" {
		model, _ = json.Marshal(s.models.chat)
	}
	var prompt, messages, maxTokens []byte
	for f := range fields(body) {
		key, value := string(f.key), body[f.value:f.end]
		switch key {
		case "prompt":
			prompt = value
		case "messages":
			messages = value
		case "max_tokens":
			maxTokens = value
		case "model":
			model = value
		case "priority", "tier", "tenant":
			cl.read(key, value)
		default:
			return nil, &transport.Error{Status: http.StatusBadRequest, Type: transport.InvalidRequest, Code: "unknown_parameter", Param: key,
				Message: "Unknown parameter. /chat takes prompt or messages, tier, priority, tenant, max_tokens and model."}
		}
	}
	switch {
	case model == nil:
		return nil, missing("model")
	case prompt == nil && messages == nil:
		return nil, missing("prompt")
	case prompt != nil && messages != nil:
		return nil, invalid("prompt", "give a prompt or messages, not both")
	case prompt != nil && (prompt[0] != '"' || len(prompt) == 2):
		return nil, invalid("prompt", "expected a string that is not empty")
	case messages != nil && (messages[0] != '[' || messages[skipSpace(messages, 1)] == ']'):
		return nil, invalid("messages", "expected an array with at least one message")
	case maxTokens != nil && !isCount(maxTokens):
		return nil, invalid("max_tokens", "expected an integer of at least 1")
	}
	out := append([]byte(`{"model":`), model...)
	if prompt != nil {
		out = append(out, `,"messages":[{"role":"user","content":`...)
		out = append(out, prompt...)
		out = append(out, `}]`...)
	} else {
		out = append(out, `,"messages":`...)
		out = append(out, messages...)
	}
	if maxTokens != nil {
		out = append(out, `,"max_tokens":`...)
		out = append(out, maxTokens...)
	}
	out = append(out, '}')
	parsed, err := estimator.ParseChat(out)
	if err != nil {
		return nil, err
	}
	return s.newCall(r, who, provider.Chat, out, parsed, &cl)
}

// isCount says that a JSON value is an integer of at least 1, of a size that
// somebody may mean.
func isCount(value []byte) bool {
	var n int64
	return json.Unmarshal(value, &n) == nil && n >= 1 && n <= 1<<40
}

// replyOf makes the answer of /chat from a chat completion.
func replyOf(completion []byte) ([]byte, error) {
	var v struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(completion, &v); err != nil || len(v.Choices) == 0 {
		return nil, broken(errNoReply)
	}
	return json.Marshal(struct {
		Reply string `json:"reply"`
	}{v.Choices[0].Message.Content})
}
