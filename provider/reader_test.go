package provider_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paceline-go/paceline/provider"
)

// message makes one message of an AWS event stream; headers are strings.
func message(payload string, headers ...string) string {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(h, byte(len(headers[i])))
		h = append(h, headers[i]...)
		h = append(h, 7)
		h = binary.BigEndian.AppendUint16(h, uint16(len(headers[i+1])))
		h = append(h, headers[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(h)+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func event(kind, payload string) string {
	return message(payload, ":event-type", kind, ":content-type", "application/json", ":message-type", "event")
}

func exception(kind, payload string) string {
	return message(payload, ":exception-type", kind, ":content-type", "application/json", ":message-type", "exception")
}

// chunk wraps an event as InvokeModelWithResponseStream does.
func chunk(inner string) string {
	return event("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(inner))+`","p":"abc"}`)
}

const (
	sseType    = "text/event-stream"
	jsonType   = "application/json"
	eventsType = "application/vnd.amazon.eventstream"
	linesType  = "application/x-ndjson"
)

func TestReader(t *testing.T) {
	type usage = provider.Usage
	ok := func(a provider.Answer) provider.Answer {
		a.Complete, a.Refusal = true, provider.Refusal{Class: provider.OK, Scope: "none"}
		return a
	}
	partial := func(a provider.Answer) provider.Answer {
		a.Refusal = provider.Refusal{Class: provider.Partial, Scope: "none"}
		return a
	}
	failed := func(class provider.Class, scope provider.Scope, a provider.Answer) provider.Answer {
		a.Refusal = provider.Refusal{Class: class, Scope: scope, Retryable: class.Retryable()}
		return a
	}
	const (
		opened   = `data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}` + "\n\n"
		said     = `data: {"choices":[{"delta":{"content":"a\u00e9\ud83d\ude00\n\"é😀"},"finish_reason":null}]}` + "\n\n" // 7 characters
		stopped  = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		counted  = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}` + "\n\n"
		done     = "data: [DONE]\n\n"
		claude   = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":50,"cache_creation_input_tokens":10,"cache_read_input_tokens":40,"output_tokens":1}}}` + "\n\n"
		claudeAt = `event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}` + "\n\n"
		claudeBy = `event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":42}}` + "\n\n"
		claudeTo = `event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
		nova     = `{"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":18,"cacheReadInputTokens":2,"cacheWriteInputTokens":1},"metrics":{"latencyMs":7}}`
	)
	novaDelta := event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello"},"p":"abcdef"}`)
	nine := usage{Input: 9, Output: 4, Exact: true}
	for _, c := range []struct {
		name, provider string
		api            provider.API
		kind, body     string
		want           provider.Answer
	}{
		{"chat", "openai", provider.Chat, sseType, opened + said + stopped + counted + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat, lines end in CR LF, and no empty line at the end", "openai", "", sseType,
			strings.ReplaceAll(strings.TrimRight(opened+said+stopped+counted+done, "\n"), "\n", "\r\n"),
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat, lines end in CR", "openai", "", sseType, strings.ReplaceAll(said+counted+done, "\n", "\r"),
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat with comments and a byte order mark", "openrouter", "", sseType,
			"\xEF\xBB\xBF: OPENROUTER PROCESSING\n\n:\n" + said + ": OPENROUTER PROCESSING\n\n" + counted + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat without empty lines", "generic", "", sseType, strings.ReplaceAll(said+stopped+counted+done, "\n\n", "\n"),
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat, data over several lines", "openai", "", sseType,
			"data:{\"choices\":[],\ndata:\"usage\":{\"prompt_tokens\":9\ndata: ,\"completion_tokens\":4}}\n\n" + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true})},
		{"chat of a type that is not said", "openai", "", "", said + counted + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat cut before the usage", "openai", "", sseType, opened + said + stopped,
			partial(provider.Answer{Streamed: true, Chars: 7})},
		{"chat cut before the end mark", "openai", "", sseType, said + stopped + counted,
			partial(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"chat that ends without the end mark", "generic", "", sseType, said + stopped + counted,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},
		{"two choices, cut when one has ended", "generic", "", sseType, stopped + said,
			partial(provider.Answer{Streamed: true, Chars: 7})},
		{"chat cut in the usage", "openai", "", sseType, said + stopped + counted[:len(counted)-10],
			partial(provider.Answer{Streamed: true, Chars: 7})},
		{"azure's first chunk", "azure_openai", "", sseType,
			`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n" + said + stopped,
			partial(provider.Answer{Streamed: true, Chars: 7})},
		{"text that looks like an answer", "openai", "", sseType,
			`data: {"choices":[{"delta":{"content":"{\"usage\":{\"prompt_tokens\":1}}"},"x":{"usage":{"prompt_tokens":1},"error":{"code":1}}}]}` + "\n\n",
			partial(provider.Answer{Streamed: true, Chars: 29})},
		{"nothing came", "openai", "", sseType, "", partial(provider.Answer{Streamed: true})},
		{"usage so far, cut", "vllm", "", sseType,
			`data: {"choices":[{"delta":{"content":"ab"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n\n" + `data: {"choices":[{"delta`,
			partial(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 2})},
		{"usage so far of another server, cut", "openai", "", sseType,
			`data: {"choices":[{"delta":{"content":"ab"}}],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n\n",
			partial(provider.Answer{Usage: usage{Input: 9, Output: 4}, UsageKnown: true, Streamed: true, Chars: 2})},
		{"groq's own place", "groq", "", sseType,
			`data: {"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":9,"completion_tokens":4}}}` + "\n\n" + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true})},
		{"tool calls and reasoning", "openai", "", sseType,
			`data: {"choices":[{"delta":{"reasoning_content":"abc","tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n" + done,
			ok(provider.Answer{Streamed: true, Chars: 5})},
		{"openrouter fails", "openrouter", "", sseType,
			said + `data: {"id":"x","error":{"code":502,"message":"Provider disconnected"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n",
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true, Chars: 7})},
		{"openrouter's provider refuses", "openrouter", "", sseType,
			`data: {"error":{"code":429,"message":"x","metadata":{"provider_code":"rate_limited"}},"choices":[{"finish_reason":"error"}]}` + "\n\n",
			failed(provider.RateLimited, "upstream", provider.Answer{Streamed: true})},
		{"openrouter, no credits", "openrouter", "", sseType, `data: {"error":{"code":402,"message":"x"}}` + "\n\n",
			failed(provider.QuotaExhausted, "spend", provider.Answer{Streamed: true})},
		{"an error that is long", "openrouter", "", sseType,
			`data: {"error":{"code":"server_is_overloaded","x":"` + strings.Repeat("y", 20_000) + `"}}` + "\n\n",
			failed(provider.Overloaded, "capacity", provider.Answer{Streamed: true})},
		{"an error that is a text", "generic", "", sseType, `data: {"error":"no \"luck\""}` + "\n\n",
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true})},
		{"no error", "generic", "", sseType, `data: {"error":null,"choices":[]}` + "\n\n" + `data: {"error":""}` + "\n\n" + `data: {"error":{}}` + "\n\n" + done,
			ok(provider.Answer{Streamed: true})},

		{"responses", "openai", provider.Responses, sseType,
			"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"Hi"}` + "\n\n" +
				"event: response.audio.delta\n" + `data: {"delta":"QUJD","type":"response.audio.delta"}` + "\n\n" +
				"event: response.output_text.done\n" + `data: {"type":"response.output_text.done","text":"Hi"}` + "\n\n" +
				"event: response.incomplete\n" + `data: {"type":"response.incomplete","response":{"error":null,"output":[{"content":[{"text":"Hi"}]}],"usage":{"input_tokens":9,"output_tokens":4}}}` + "\n\n",
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 2})},
		{"responses failed", "openai", provider.Responses, sseType,
			`data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"tokens per min (TPM)"},"usage":{"input_tokens":9,"output_tokens":4}}}` + "\n\n",
			failed(provider.RateLimited, "tokens", provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Complete: true})},
		{"responses failed without a word", "openai", provider.Responses, sseType, `data: {"type":"response.failed","response":{"error":null,"usage":null}}` + "\n\n",
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true, Complete: true})},
		{"responses, an error event", "openai", provider.Responses, sseType, "event: error\n" + `data: {"type":"error","code":"insufficient_quota","message":"x","param":null}` + "\n\n",
			failed(provider.QuotaExhausted, "spend", provider.Answer{Streamed: true})},
		{"responses cut", "openai", provider.Responses, sseType, `data: {"type":"response.output_text.delta","delta":"Hi"}` + "\n\n",
			partial(provider.Answer{Streamed: true, Chars: 2})},
		{"responses where chat was expected", "openai", "", sseType,
			`data: {"type":"response.completed","response":{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":3},"output_tokens":4}}}` + "\n\n",
			ok(provider.Answer{Usage: usage{Input: 9, Cached: 3, Output: 4, Exact: true}, UsageKnown: true, Streamed: true})},

		{"messages", "anthropic", provider.Messages, sseType, claude + claudeAt + claudeBy + claudeTo,
			ok(provider.Answer{Usage: usage{Input: 100, Cached: 40, CacheWrite: 10, Output: 42, Exact: true}, UsageKnown: true, Streamed: true, Chars: 5})},
		{"messages behind a gateway", "generic", "", sseType, claude + claudeAt + claudeBy + claudeTo,
			ok(provider.Answer{Usage: usage{Input: 100, Cached: 40, CacheWrite: 10, Output: 42, Exact: true}, UsageKnown: true, Streamed: true, Chars: 5})},
		{"messages whose end mark is lost", "anthropic", "", sseType, claude + claudeAt + claudeBy,
			partial(provider.Answer{Usage: usage{Input: 100, Cached: 40, CacheWrite: 10, Output: 42, Exact: true}, UsageKnown: true, Streamed: true, Chars: 5})},
		{"messages, a later 0 is no count", "anthropic", "", sseType,
			claude + strings.Replace(claudeBy, `{"output_tokens"`, `{"input_tokens":0,"cache_read_input_tokens":null,"output_tokens"`, 1) + claudeTo,
			ok(provider.Answer{Usage: usage{Input: 100, Cached: 40, CacheWrite: 10, Output: 42, Exact: true}, UsageKnown: true, Streamed: true})},
		{"messages overloaded", "anthropic", "", sseType, claude + claudeAt + "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n",
			failed(provider.Overloaded, "capacity", provider.Answer{Usage: usage{Input: 100, Cached: 40, CacheWrite: 10, Output: 1}, UsageKnown: true, Streamed: true, Chars: 5})},
		{"messages limited", "anthropic", "", sseType, "event: error\n" + `data: {"type":"error","error":{"type":"rate_limit_error","message":"output tokens per minute"}}` + "\n\n",
			failed(provider.RateLimited, "output_tokens", provider.Answer{Streamed: true})},
		{"messages failed", "anthropic", "", sseType, "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"x"}}` + "\n\n",
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true})},
		{"messages timed out", "anthropic", "", sseType, "event: error\n" + `data: {"type":"error","error":{"type":"timeout_error"}}`,
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true})},
		{"messages in one body", "anthropic", "", jsonType, `{"type":"message","content":[{"type":"thinking","thinking":"ab"},{"type":"text","text":"cde"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":4,"output_tokens_details":{"thinking_tokens":1}}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Output: 4, Reasoning: 1, Exact: true}, UsageKnown: true, Chars: 5})},

		{"gemini", "gemini", "", sseType,
			`data: {"candidates":[{"content":{"parts":[{"text":"ab"}]}}],"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}` + "\r\n\r\n" +
				`data: {"candidates":[{"content":{"parts":[{"text":"c"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":1}}` + "\r\n\r\n",
			ok(provider.Answer{Usage: usage{Input: 9, Output: 4, Reasoning: 1, Exact: true}, UsageKnown: true, Streamed: true, Chars: 3})},
		{"gemini cut", "gemini", "", sseType,
			`data: {"candidates":[{"content":{"parts":[{"text":"ab"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4}}` + "\n\n",
			partial(provider.Answer{Usage: usage{Input: 9, Output: 4}, UsageKnown: true, Streamed: true, Chars: 2})},
		{"gemini blocked", "gemini", "", sseType, `data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9}}` + "\n\n",
			ok(provider.Answer{Usage: usage{Input: 9, Exact: true}, UsageKnown: true, Streamed: true})},
		{"gemini as an array", "vertex_gemini", "", jsonType,
			`[{"candidates":[{"content":{"parts":[{"text":"ab"}]}}],"usageMetadata":{"promptTokenCount":1}},` + "\n" +
				`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4}}]`,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Chars: 2})},
		{"gemini as an array, cut", "vertex_gemini", "", jsonType,
			`[{"candidates":[{"content":{"parts":[{"text":"ab"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4}},{"cand`,
			partial(provider.Answer{Usage: usage{Input: 9, Output: 4}, UsageKnown: true, Chars: 2})},
		{"gemini out of capacity", "gemini", "", sseType, `data: {"error":{"code":503,"status":"UNAVAILABLE"}}` + "\n\n",
			failed(provider.Overloaded, "capacity", provider.Answer{Streamed: true})},
		{"gemini in OpenAI's shape", "gemini", provider.Chat, jsonType, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":113}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Output: 104, Reasoning: 100, Exact: true}, UsageKnown: true})},

		{"converse", "bedrock_runtime", provider.Converse, eventsType,
			event("messageStart", `{"role":"assistant"}`) + novaDelta + novaDelta + event("messageStop", `{"stopReason":"end_turn"}`) + event("metadata", nova),
			ok(provider.Answer{Usage: usage{Input: 13, Cached: 2, CacheWrite: 1, Output: 5, Exact: true}, UsageKnown: true, Streamed: true, Chars: 10})},
		{"converse cut", "bedrock_runtime", "", eventsType, novaDelta + novaDelta[:len(novaDelta)-20],
			partial(provider.Answer{Streamed: true, Chars: 5})},
		{"converse throttled", "bedrock_runtime", "", eventsType, novaDelta + exception("throttlingException", `{"message":"Too many tokens"}`),
			failed(provider.RateLimited, "unknown", provider.Answer{Streamed: true, Chars: 5})},
		{"converse, the day is over", "bedrock_runtime", "", eventsType, exception("throttlingException", `{"message":"Too many tokens per day"}`),
			failed(provider.QuotaExhausted, "day", provider.Answer{Streamed: true})},
		{"converse unavailable", "bedrock_runtime", "", eventsType, exception("serviceUnavailableException", `{"message":"x"}`),
			failed(provider.Overloaded, "capacity", provider.Answer{Streamed: true})},
		{"converse failed", "bedrock_runtime", "", eventsType, exception("modelStreamErrorException", `{"message":"x","originalStatusCode":500}`),
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true})},
		{"converse, an unmodeled error", "bedrock_runtime", "", eventsType, message("", ":message-type", "error", ":error-code", "InternalError", ":error-message", "x"),
			failed(provider.UpstreamError, "none", provider.Answer{Streamed: true})},
		{"converse, a wrong request", "bedrock_runtime", "", eventsType, exception("validationException", ``),
			failed(provider.ClientError, "none", provider.Answer{Streamed: true})},
		{"a message that is too short for itself", "bedrock_runtime", "", eventsType, novaDelta + "\x00\x00\x00\x0f\x00\x00\x00\x00abcd" + event("metadata", nova),
			partial(provider.Answer{Streamed: true, Chars: 5})},
		{"a message whose headers are longer than itself", "bedrock_runtime", "", eventsType, "\x00\x00\x00\x20\x00\x00\x00\x30abcd" + event("metadata", nova),
			partial(provider.Answer{Streamed: true})},
		{"invoke", "bedrock_runtime", provider.Messages, eventsType,
			chunk(`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}`) +
				chunk(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}`) +
				chunk(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`) +
				chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9}}`),
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 5})},

		{"cohere", "cohere", "", sseType,
			"event: content-delta\n" + `data: {"type":"content-delta","delta":{"message":{"content":{"text":"ab"}}}}` + "\n\n" +
				"event: message-end\n" + `data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":9.0,"output_tokens":4}}}}` + "\n\n",
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 2})},
		{"cohere in one body", "cohere", "", jsonType, `{"message":{"content":[{"type":"text","text":"ab"}]},"usage":{"tokens":{"input_tokens":9,"output_tokens":4}}}`,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Chars: 2})},
		{"xai leaves reasoning out", "xai", "", jsonType, `{"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":113,"completion_tokens_details":{"reasoning_tokens":100}}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Output: 104, Reasoning: 100, Exact: true}, UsageKnown: true})},
		{"xai has reasoning in", "xai", "", jsonType, `{"usage":{"prompt_tokens":9,"completion_tokens":104,"total_tokens":113,"completion_tokens_details":{"reasoning_tokens":100}}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Output: 104, Reasoning: 100, Exact: true}, UsageKnown: true})},
		{"deepseek waits, then streams", "deepseek", "", sseType, "\n\n: keep-alive\n\n: keep-alive\n\n" + said + stopped + counted + done,
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 7})},

		{"embeddings", "openai", provider.Embeddings, jsonType, `{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Exact: true}, UsageKnown: true})},
		{"lines", "generic", "", linesType, `{"choices":[{"delta":{"content":"ab"}}]}` + "\n" + `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n",
			ok(provider.Answer{Usage: nine, UsageKnown: true, Streamed: true, Chars: 2})},
		{"lines cut", "generic", "", linesType, `{"choices":[{"delta":{"content":"ab"}}]}` + "\n" + `{"choices":[{"del`,
			partial(provider.Answer{Streamed: true, Chars: 2})},
		{"lines say done", "generic", "", linesType, `{"message":{"content":"ab"},"done":false}` + "\n" + `{"done":true}`,
			ok(provider.Answer{Streamed: true})},
		{"an error in a 200", "openai", "", jsonType, `{"error":{"code":"insufficient_quota","message":"x"}}`,
			failed(provider.QuotaExhausted, "spend", provider.Answer{Complete: true})},
		{"an error in a 200 in place of a stream", "openai", "", sseType, `{"error":{"code":"server_is_overloaded","message":"x"}}`,
			failed(provider.Overloaded, "capacity", provider.Answer{Complete: true})},
		{"a body that is cut", "openai", "", jsonType, `{"choices":[{"message":{"content":"abc`, partial(provider.Answer{Chars: 3})},
		{"a body cut after the usage", "openai", "", jsonType, `{"usage":{"prompt_tokens":9,"completion_tokens":4},"x":`,
			partial(provider.Answer{Usage: nine, UsageKnown: true})},
		{"a body cut in the usage", "openai", "", jsonType, `{"usage":{"prompt_tokens":9,"completion_tokens":4`, partial(provider.Answer{})},
		{"not JSON", "openai", "", "text/html", "<html>ok</html>", partial(provider.Answer{})},
		{"counts that cannot be", "openai", "", jsonType, `{"usage":{"prompt_tokens":-1,"completion_tokens":1e300}}`, ok(provider.Answer{})},
		{"parts above the whole", "openai", "", jsonType, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":10},"completion_tokens":4}}`,
			ok(provider.Answer{Usage: usage{Input: 9, Cached: 9, Output: 4, Exact: true}, UsageKnown: true})},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			if c.kind != "" {
				h.Set("Content-Type", c.kind)
			}
			if got := readInPieces(t, profile(t, c.provider), c.api, h, []byte(c.body)); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Against an oracle: random texts, as encoding/json writes them, with random
// members around what counts.
func TestReaderOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	alphabet := []rune("ab\"\\{}[]:,\n\t\u2028\u00e9\u4e16\U0001f600\x01 ")
	text := func() string {
		s := make([]rune, random.IntN(12))
		for i := range s {
			s[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(s)
	}
	var noise func(depth int) any
	noise = func(depth int) any {
		switch n := random.IntN(7); {
		case n == 0 && depth < 4:
			return map[string]any{"usage": noise(depth + 1), text(): noise(depth + 1), "error": text()}
		case n == 1 && depth < 4:
			return []any{noise(depth + 1), noise(depth + 1)}
		case n == 2:
			return nil
		case n == 3:
			return random.Float64()
		case n == 4:
			return true
		default:
			return text()
		}
	}
	for range 200 {
		var stream strings.Builder
		var chars int
		var last provider.Usage
		for range random.IntN(8) {
			said := text()
			chars += utf8.RuneCountInString(said)
			last.Input, last.Output = random.Int64N(1<<40), random.Int64N(1<<40)
			data, err := json.Marshal(map[string]any{
				"a": noise(0), "z": noise(0),
				"choices": []any{map[string]any{"b": noise(0), "delta": map[string]any{"content": said, "a": noise(0)}}},
				"usage":   map[string]any{"a": noise(0), "prompt_tokens": last.Input, "completion_tokens": last.Output},
			})
			if err != nil {
				t.Fatal(err)
			}
			stream.WriteString("data: " + string(data) + "\n\n")
		}
		a := readInPieces(t, profile(t, "openai"), provider.Chat, header("Content-Type", sseType), []byte(stream.String()))
		if a.Usage != last || a.Chars != int64(chars) || a.Refusal.Class != provider.Partial {
			t.Fatalf("seed %d: %+v, want %+v, %d characters\n%s", seed, a, last, chars, &stream)
		}
	}
}

func TestReaderUsageInHeader(t *testing.T) {
	h := header("Content-Type", jsonType, "fireworks-prompt-tokens", "31", "fireworks-cached-prompt-tokens", "7")
	r := profile(t, "fireworks").NewReader("", h)
	write(t, r, `{"choices":[]}`)
	if a := r.End(); !a.UsageKnown || a.Usage != (provider.Usage{Input: 31, Cached: 7}) {
		t.Errorf("%+v", a)
	}
}

// repeated is n bytes of a text repeated for ever.
type repeated struct {
	text string
	n    int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.n <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.n) / len(r.text) * len(r.text)
	for i := 0; i < n; i += len(r.text) {
		copy(p[i:], r.text)
	}
	r.n -= max(n, 1)
	return n, nil
}

// Whatever the bytes are, a Reader holds no more than its bounds, and a body above
// them still has its usage.
func TestReaderBounds(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct{ kind, before, text, after string }{
		{jsonType, `{"choices":[{"message":{"content":"`, "x", `"}}],`},
		{jsonType, `{"choices":[{"message":{"content":"`, `\u00e9`, `"}}],`},
		{jsonType, `{"`, "k", `":1,`},
		{jsonType, `{"data":`, "[", ``},
		{jsonType, `{"choices":`, "[", ``},
		{jsonType, `{"choices":`, `[{"delta":`, ``},
		{jsonType, `{"data":[`, "0.125,", "1],"},
		{jsonType, `{"x":{"usage":{"y":"`, "x", `"}},`},
		{jsonType, `{"usage":{"y":"`, "x", `"},`},
		{jsonType, `{"error":{"y":"`, "x", `"},`},
		{jsonType, `{"error":"`, "x", `",`},
		{jsonType, `{"message":"`, "x", `",`},
		{jsonType, `{"type":"`, "x", `",`},
		{jsonType, `{"bytes":"`, "eHh4", `",`},
		{jsonType, `{"code":`, "1", `,`},
		{jsonType, ``, " ", `{`},
		{sseType, `data: {"choices":[{"delta":{"content":"`, "x", `"}}],`},
		{sseType, ``, "x", "\n\ndata: {"},
		{sseType, ``, ": keep-alive\n\n", "data: {"},
		{sseType, `event: `, "x", "\ndata: {"},
		{sseType, `data: [DONE]`, "x", "\n\ndata: {"},
		{eventsType, "\x00\x00\xff\xff\x00\x00\xf0\x00abcd", "x", ""},
		{eventsType, "\x00\xff\xff\xff\x00\x00\x00\x00abcd", "x", ""},
		{linesType, ``, "{}\n", "{"},
	} {
		r := profile(t, "openai").NewReader("", header("Content-Type", c.kind))
		write(t, r, c.before)
		// Not by io.Copy alone: r is to see pieces of a usual size.
		if _, err := io.CopyBuffer(struct{ io.Writer }{r}, struct{ io.Reader }{&repeated{c.text, size}}, make([]byte, 32<<10)); err != nil {
			t.Fatal(err)
		}
		write(t, r, c.after+`"usage":{"prompt_tokens":9,"completion_tokens":4}}`)
		if held := provider.Held(r); held > 150<<10 {
			t.Errorf("%q, %q: holds %d bytes", c.before, c.text, held)
		}
		a := r.End()
		if c.after != "" && (a.Usage.Input != 9 || !a.UsageKnown) {
			t.Errorf("%q, %q: lost the usage: %+v", c.before, c.text, a)
		}
	}
}

func BenchmarkReaderDelta(b *testing.B) {
	for _, c := range []struct{ name, provider, kind, event string }{
		{"chat", "openai", sseType, `data: {"id":"chatcmpl-abcdefghijklmnop","object":"chat.completion.chunk","created":1796040000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":" hello"},"finish_reason":null}],"usage":null}` + "\n\n"},
		{"messages", "anthropic", sseType, "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" hello"}}` + "\n\n"},
		{"generate", "gemini", sseType, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":" hello"}]}}],"usageMetadata":{"promptTokenCount":1200,"candidatesTokenCount":9,"totalTokenCount":1209},"modelVersion":"gemini-3.5-flash"}` + "\r\n\r\n"},
		{"converse", "bedrock_runtime", eventsType, event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" hello"},"p":"abcdefghijklmnop"}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := profile(b, c.provider).NewReader("", header("Content-Type", c.kind))
			e := c.event
			b.SetBytes(int64(len(e)))
			b.ReportAllocs()
			for b.Loop() {
				write(b, r, e)
			}
		})
	}
	b.Run("embeddings", func(b *testing.B) {
		r := profile(b, "openai").NewReader(provider.Embeddings, header("Content-Type", jsonType))
		write(b, r, `{"data":[{"embedding":[`)
		e := strings.Repeat("-0.0123456789,", 2000)
		b.SetBytes(int64(len(e)))
		b.ReportAllocs()
		for b.Loop() {
			write(b, r, e)
		}
	})
	b.Run("whole", func(b *testing.B) {
		p := profile(b, "openai")
		h := header("Content-Type", sseType)
		stream := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}` + "\n\ndata: [DONE]\n\n"
		b.ReportAllocs()
		for b.Loop() {
			r := p.NewReader("", h)
			write(b, r, stream)
			r.End()
		}
	})
}

// Whether a cap ended the answer shows in every provider's own words.
func TestReaderCut(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		api     provider.API
		kind    string
		yes, no string
	}{
		"chat": {"openai", provider.Chat, jsonType,
			`{"choices":[{"finish_reason":"stop","message":{"content":"a"}},{"message":{"content":"length"},"finish_reason":"length"}]}`,
			`{"choices":[{"message":{"content":"length","finish_reason":"length"},"finish_reason":"stop"}],"length":"length"}`},
		"chat, streamed": {"openai", provider.Chat, sseType,
			`data: {"choices":[{"delta":{},"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n",
			`data: {"choices":[{"delta":{"content":"length"},"finish_reason":null}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
		"mistral": {"mistral", provider.Chat, jsonType, `{"choices":[{"finish_reason":"model_length"}]}`, `{"choices":[{"finish_reason":"stop"}]}`},
		"responses": {"openai", provider.Responses, jsonType,
			`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`,
			`{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`},
		"responses, streamed": {"openai", provider.Responses, sseType,
			`data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}` + "\n\n",
			`data: {"type":"response.completed","response":{"incomplete_details":null}}` + "\n\n"},
		"messages": {"anthropic", provider.Messages, jsonType,
			`{"type":"message","stop_reason":"max_tokens","content":[]}`, `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"max_tokens"}]}`},
		"messages, streamed": {"anthropic", provider.Messages, sseType,
			`data: {"type":"message_start","message":{"stop_reason":null}}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"}}` + "\n\n",
			`data: {"type":"message_delta","delta":{"stop_reason":"stop_sequence"}}` + "\n\n"},
		"converse": {"bedrock_runtime", provider.Converse, jsonType,
			`{"output":{"message":{"content":[{"text":"a"}]}},"stopReason":"max_tokens"}`, `{"stopReason":"end_turn"}`},
		"converse, streamed": {"bedrock_runtime", provider.Converse, eventsType,
			event("messageStop", `{"stopReason":"max_tokens"}`), event("messageStop", `{"stopReason":"tool_use"}`)},
		"generate": {"gemini", "", jsonType, `{"candidates":[{"finishReason":"MAX_TOKENS"}]}`, `{"candidates":[{"finishReason":"STOP"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := provider.ProfileNamed(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			for body, want := range map[string]bool{c.yes: true, c.no: false} {
				for _, step := range []int{1, 7, len(body)} {
					r := p.NewReader(c.api, http.Header{"Content-Type": {c.kind}})
					for rest := body; rest != ""; {
						n := min(step, len(rest))
						_, _ = io.WriteString(r, rest[:n])
						rest = rest[n:]
					}
					if got := r.End().Cut; got != want {
						t.Errorf("in steps of %d: cut %v of %q", step, got, body)
					}
				}
			}
		})
	}
}
