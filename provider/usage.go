package provider

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/paceline-go/paceline/ledger"
)

// API is the shape of an answer.
type API string

// The shapes, named after the last part of their URLs.
const (
	// Chat is OpenAI's chat completions, which most providers speak.
	Chat API = "chat"
	// Completions is OpenAI's older form of it.
	Completions API = "completions"
	// Responses is OpenAI's.
	Responses API = "responses"
	// Embeddings is OpenAI's.
	Embeddings API = "embeddings"
	// Messages is Anthropic's.
	Messages API = "messages"
	// Generate is Google's generateContent and streamGenerateContent.
	Generate API = "generate"
	// Converse is Bedrock's Converse and ConverseStream.
	Converse API = "converse"
)

// Usage is what a provider says a call used, in tokens, in one form for all
// providers. It is what is billed; [Profile.QuotaCharge] is what counts.
type Usage struct {
	// Input is all of the prompt. Cached is the part of it that was read from a
	// cache, CacheWrite the part that was written to one.
	Input, Cached, CacheWrite int64
	// Output is all that was generated. Reasoning is the part of it that is
	// hidden.
	Output, Reasoning int64
	// Exact is false when Output is a lower bound, because the answer was cut.
	Exact bool
}

// UsagePaths are where a usage object has its counts. Each is a list of paths
// whose values are added up: keys joined by dots, and of paths joined by "|" the
// first that is there.
type UsagePaths struct {
	Input, Cached, CacheWrite, Output, Reasoning []string
	// Total is input and output together. Where it is more than their sum, the
	// rest is reasoning that the output leaves out.
	Total string
}

// usualPaths are the counts of each shape (providers' docs, 2026-10).
var usualPaths = map[API]UsagePaths{
	Chat:        chatPaths,
	Completions: chatPaths,
	Embeddings:  {Input: []string{"prompt_tokens|input_tokens|total_tokens"}},
	Responses: {
		Input:      []string{"input_tokens"},
		Cached:     []string{"input_tokens_details.cached_tokens"},
		CacheWrite: []string{"input_tokens_details.cache_write_tokens"},
		Output:     []string{"output_tokens"},
		Reasoning:  []string{"output_tokens_details.reasoning_tokens"},
	},
	Messages: {
		Input:      []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"},
		Cached:     []string{"cache_read_input_tokens"},
		CacheWrite: []string{"cache_creation_input_tokens"},
		Output:     []string{"output_tokens"},
		Reasoning:  []string{"output_tokens_details.thinking_tokens"},
	},
	Generate: {
		Input:     []string{"promptTokenCount", "toolUsePromptTokenCount"},
		Cached:    []string{"cachedContentTokenCount"},
		Output:    []string{"candidatesTokenCount", "thoughtsTokenCount"},
		Reasoning: []string{"thoughtsTokenCount"},
	},
	Converse: {
		Input:      []string{"inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"},
		Cached:     []string{"cacheReadInputTokens"},
		CacheWrite: []string{"cacheWriteInputTokens"},
		Output:     []string{"outputTokens"},
	},
}

var chatPaths = UsagePaths{
	Input:      []string{"prompt_tokens"},
	Cached:     []string{"prompt_tokens_details.cached_tokens|prompt_cache_hit_tokens"},
	CacheWrite: []string{"prompt_tokens_details.cache_write_tokens"},
	Output:     []string{"completion_tokens"},
	Reasoning:  []string{"completion_tokens_details.reasoning_tokens"},
}

// reconciled are the counts of a chat whose completion_tokens may leave reasoning
// out.
func reconciled() UsagePaths {
	p := chatPaths
	p.Total = "total_tokens"
	return p
}

// Usage returns the usage in an answer that is one JSON body, or in as much of it
// as there is. The empty api is the provider's usual one.
func (p *Profile) Usage(api API, body []byte) (Usage, bool) {
	r := p.NewReader(api, nil)
	r.framing = framedJSON
	r.feed(body)
	a := r.End()
	return a.Usage, a.UsageKnown
}

func (p *Profile) paths(api API) UsagePaths {
	if u, ok := p.UsagePaths[api]; ok {
		return u
	}
	return usualPaths[api]
}

// usageFrom reads a usage object in the shape of the api or, when it has nothing
// of that, in any other: what a gateway translates is not always translated whole.
func (p *Profile) usageFrom(api API, object map[string]any) (Usage, bool) {
	if len(object) == 0 {
		return Usage{}, false
	}
	if api == "" && len(p.APIs) > 0 {
		api = p.APIs[0]
	}
	paths := p.paths(api)
	if u, ok := paths.read(object); ok {
		return u, true
	}
	named := Responses // which shares its names with Messages, but for the cache
	if object["cache_read_input_tokens"] != nil || object["cache_creation_input_tokens"] != nil {
		named = Messages
	}
	for _, other := range [...]API{Chat, named, Generate, Converse} {
		paths = p.paths(other)
		if u, ok := paths.read(object); ok {
			return u, true
		}
	}
	return Usage{}, false
}

func (u *UsagePaths) read(object map[string]any) (Usage, bool) {
	input, hasInput := sum(object, u.Input)
	output, hasOutput := sum(object, u.Output)
	if !hasInput && !hasOutput {
		return Usage{}, false
	}
	cached, _ := sum(object, u.Cached)
	written, _ := sum(object, u.CacheWrite)
	reasoning, _ := sum(object, u.Reasoning)
	if total, ok := count(object, u.Total); ok && hasInput && total-input > output {
		reasoning = max(reasoning, total-input-output)
		output = total - input
	}
	if reasoning > output { // a part cannot be more than the whole: it was left out
		output += reasoning
	}
	cached = min(cached, input)
	return Usage{
		Input: input, Cached: cached, CacheWrite: min(written, input-cached),
		Output: output, Reasoning: reasoning,
	}, true
}

// sum adds up what is there of the paths.
func sum(object map[string]any, paths []string) (n int64, found bool) {
	for _, p := range paths {
		if v, ok := count(object, p); ok {
			n, found = min(n+v, ledger.MaxAmount), true
		}
	}
	return n, found
}

// count returns the number at the first of the path's places that has one. What
// is negative, a fraction or too large for a ledger is none.
func count(object map[string]any, path string) (int64, bool) {
	for path != "" {
		var one string
		one, path, _ = strings.Cut(path, "|")
		var v any = object
		for one != "" && v != nil {
			var key string
			key, one, _ = strings.Cut(one, ".")
			m, _ := v.(map[string]any)
			v = m[key]
		}
		f, ok := v.(float64)
		if ok && f >= 0 && f <= float64(ledger.MaxAmount) && f == math.Trunc(f) {
			return int64(f), true
		}
	}
	return 0, false
}

// merge lays a later usage object over an earlier one. Counts are cumulative, so
// the later one holds; what it leaves out or sends as 0 stays.
func merge(into map[string]any, raw []byte) map[string]any {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return into
	}
	if into == nil {
		return object
	}
	for k, v := range object {
		if f, ok := v.(float64); v != nil && (!ok || f != 0 || into[k] == nil) {
			into[k] = v
		}
	}
	return into
}
