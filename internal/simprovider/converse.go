package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// converseBody is a request of Bedrock's Converse API, whose path has the model.
type converseBody struct {
	System   converseText `json:"system"`
	Messages []struct {
		Role    string       `json:"role"`
		Content converseText `json:"content"`
	} `json:"messages"`
	ToolConfig      json.RawMessage `json:"toolConfig"`
	InferenceConfig struct {
		MaxTokens *int64 `json:"maxTokens"`
	} `json:"inferenceConfig"`
}

// converseText is the text of an array of blocks; the others count nothing.
type converseText string

func (t *converseText) UnmarshalJSON(b []byte) error {
	var blocks []struct {
		Text string `json:"text"`
	}
	err := json.Unmarshal(b, &blocks)
	for _, block := range blocks {
		*t += converseText(block.Text)
	}
	return err
}

// parseConverse reads and checks a body. It keeps no part of it.
func parseConverse(data []byte) (*chatRequest, *apiError) {
	var b converseBody
	if err := parseJSON(data, &b); err != nil {
		return nil, err
	}
	if len(b.Messages) == 0 {
		return nil, invalid("", "", "The messages array must hold at least one message.")
	}
	r := &chatRequest{choices: 1, charge: -1, limit: -1}
	if limit := b.InferenceConfig.MaxTokens; limit != nil {
		if *limit < 1 || *limit > 1<<40 {
			return nil, invalid("", "", "The value at inferenceConfig.maxTokens must be at least 1.")
		}
		r.charge, r.limit = *limit, *limit
	}
	var messages []message
	for _, m := range b.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, invalid("", "", "The role of a message must be user or assistant.")
		}
		messages = append(messages, message{m.Role, newContent(string(m.Content))})
	}
	r.count(messages, int64(utf8.RuneCountInString(string(b.System))+utf8.RuneCount(b.ToolConfig)))
	return r, nil
}

// serveConverse answers POST /model/ID/converse.
func (s *Server) serveConverse(w http.ResponseWriter, r *http.Request) *apiError {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/model/"), "/converse")
	parse := func(data []byte) (*chatRequest, *apiError) {
		req, err := parseConverse(data)
		if err == nil {
			req.modelID = id
		}
		return req, err
	}
	c, err := s.begin(w, r, parse, "")
	if err != nil {
		return err
	}
	defer s.finish(c.grant)
	if !c.complete(r.Context()) {
		return errGone
	}
	g := c.grant
	latency := (s.clock() - g.at).Milliseconds()
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"output":{"message":{"role":"assistant","content":[{"text":"%s"}]}},"stopReason":%q,"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d},"metrics":{"latencyMs":%d}}`,
		c.wholeText(), c.stopReason(), g.input-g.cacheRead-g.cacheWrite, g.produced, g.input+g.produced, g.cacheRead, g.cacheWrite, latency))
	return nil
}
