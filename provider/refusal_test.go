package provider_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/paceline-go/paceline/provider"
)

func profile(t testing.TB, name string) *provider.Profile {
	t.Helper()
	p, err := provider.ProfileNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// header makes a header of names and values in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	h.Set("Date", "Mon, 30 Nov 2026 12:00:00 GMT")
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

const (
	limited  = provider.RateLimited
	large    = provider.TooLarge
	money    = provider.QuotaExhausted
	ramp     = provider.Acceleration
	load     = provider.Overloaded
	upstream = provider.UpstreamError
	client   = provider.ClientError
)

func TestRefusalClasses(t *testing.T) {
	quotaID := func(id string) string {
		return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Please retry in 997.965142ms","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"Other"},{"quotaId":"` + id + `"}]},` +
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.998s"}]}}`
	}
	for _, c := range []struct {
		provider string
		status   int
		header   http.Header
		body     string
		class    provider.Class
		scope    provider.Scope
	}{
		{"openai", 429, nil, `{"error":{"code":"insufficient_quota"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":"credit_balance_exhausted"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":"organization_spend_limit_exceeded"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":"project_spend_limit_exceeded"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":"organization_usage_limit_exceeded"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":"billing_hard_limit_reached","message":"... per day"}}`, money, "spend"},
		{"openai", 429, nil, `{"error":{"code":null,"type":"insufficient_quota"}}`, money, "spend"},
		{"openai", 413, nil, `{"error":{"message":"Request too large for gpt"}}`, large, "tokens"},
		{"openai", 413, nil, `<html>413 Request Entity Too Large</html>`, client, "none"},
		{"openai", 429, nil, `{"error":{"code":"slow_down"}}`, ramp, "acceleration"},
		{"openai", 429, nil, `{"error":{"message":"on requests per day (RPD): Limit 200"}}`, limited, "day"},
		{"openai", 429, nil, `{"error":{"message":"on tokens per day (TPD): Limit 200"}}`, limited, "day"},
		{"openai", 429, nil, `{"error":{"message":"on requests per min (RPM): Limit 3"}}`, limited, "requests"},
		{"openai", 429, nil, `{"error":{"message":"on tokens per min (TPM): Limit 3"}}`, limited, "tokens"},
		{"openai", 429, nil, `{"error":{"message":"on images per min: Limit 3"}}`, limited, "images"},
		{"openai", 429, nil, `{"error":{"message":"Resource Unavailable"}}`, limited, "unknown"},
		{"openai", 429, nil, ``, limited, "unknown"},
		{"openai", 429, nil, `{"error":{"code":"insufficient_quota","message":"You exceeded yo`, money, "spend"},
		{"openai", 429, nil, `{"error":{"message":"on tokens per min (TPM): Limit 30000, Us`, limited, "tokens"},
		{"openai", 503, nil, `{"error":{"code":"slow_down"}}`, load, "capacity"},
		{"openai", 500, nil, ``, upstream, "none"},
		{"openai", 502, nil, `<html>`, upstream, "none"},
		{"openai", 504, nil, ``, upstream, "none"},
		{"openai", 408, nil, ``, upstream, "none"},
		{"openai", 400, nil, `{"error":{"message":"tokens per min"}}`, client, "none"},
		{"openai", 401, nil, ``, client, "none"},
		{"openai", 422, nil, ``, client, "none"},

		{"azure_openai", 429, nil, `{"error":{"code":"insufficient_quota"}}`, money, "spend"},
		{"azure_openai", 429, nil, `{"error":{"code":"429","message":"The system is experiencing High Demand"}}`, load, "capacity"},
		{"azure_openai", 429, nil, `{"error":{"code":"429","message":"temporarily unable to process"}}`, load, "capacity"},
		{"azure_openai", 429, nil, `{"error":{"code":429,"message":"exceeded the token rate limit"}}`, limited, "tokens"},
		{"azure_openai", 429, nil, `{"error":{"message":"exceeded call rate limit"}}`, limited, "requests"},
		{"azure_openai", 429, nil, `{"error":{"message":"no"}}`, limited, "unknown"},
		{"azure_openai", 503, nil, ``, load, "capacity"},
		{"azure_openai", 408, nil, ``, upstream, "none"},

		{"anthropic", 429, nil, `{"error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`, money, "spend"},
		{"anthropic", 429, nil, `{"error":{"message":"of 8,000 output tokens per minute"}}`, limited, "output_tokens"},
		{"anthropic", 429, nil, `{"error":{"message":"of 50 requests per minute"}}`, limited, "requests"},
		{"anthropic", 429, nil, `{"error":{"message":"Acceleration limit"}}`, ramp, "acceleration"},
		{"anthropic", 429, nil, `{"error":{"message":"Number of concurrent"}}`, limited, "unknown"},
		{"anthropic", 400, nil, `{"error":{"message":"You have reached your specified API usage limits."}}`, money, "spend"},
		{"anthropic", 400, nil, `{"error":{"message":"You have reached your specified workspace API usage limits."}}`, money, "spend"},
		{"anthropic", 400, nil, `{"error":{"message":"max_tokens"}}`, client, "none"},
		{"anthropic", 402, nil, `{"error":{"type":"billing_error"}}`, money, "spend"},
		{"anthropic", 529, nil, ``, load, "capacity"},
		{"anthropic", 503, nil, ``, upstream, "none"},
		{"anthropic", 413, nil, ``, client, "none"},

		{"gemini", 429, nil, quotaID("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), money, "day"},
		{"gemini", 429, nil, quotaID("GenerateRequestsPerMinutePerProjectPerModel"), limited, "requests"},
		{"gemini", 429, nil, "[" + quotaID("GenerateContentInputTokensPerModelPerMinute") + "]", limited, "input_tokens"},
		{"gemini", 429, nil, `{"error":{"details":[{"type":"spend_limit_exceeded"}]}}`, limited, "spend_10min"},
		{"gemini", 429, nil, `{"error":{}}`, limited, "unknown"},
		{"gemini", 503, nil, `{"error":{"status":"UNAVAILABLE"}}`, load, "capacity"},
		{"gemini", 500, nil, ``, upstream, "none"},
		{"gemini", 404, nil, ``, client, "none"},
		{"vertex_gemini", 429, nil, `{"error":{"message":"Quota exceeded for aiplatform.googleapis.com"}}`, limited, "unknown"},
		{"vertex_gemini", 429, nil, ``, load, "capacity"},

		{"bedrock_runtime", 429, header("x-amzn-errortype", "ThrottlingException"), `{"message":"Too many tokens per day"}`, money, "day"},
		{"bedrock_runtime", 429, header("x-amzn-errortype", "throttlingException:http://x/"), `{}`, limited, "unknown"},
		{"bedrock_runtime", 400, header("x-amzn-errortype", "ServiceQuotaExceededException"), `{}`, money, "unknown"},
		{"bedrock_runtime", 429, header("x-amzn-errortype", "ModelNotReadyException"), `{}`, load, "capacity"},
		{"bedrock_runtime", 503, header("x-amzn-errortype", "ServiceUnavailableException"), `{}`, load, "capacity"},
		{"bedrock_runtime", 503, nil, ``, upstream, "none"},
		{"bedrock_runtime", 424, nil, ``, upstream, "none"},
		{"bedrock_runtime", 400, header("x-amzn-errortype", "ValidationException"), `{}`, client, "none"},
		{"bedrock_mantle", 429, nil, ``, limited, "unknown"},

		{"mistral", 429, nil, `{"object":"error","message":"Requests rate limit exceeded"}`, limited, "unknown"},
		{"mistral", 503, nil, ``, upstream, "none"},
		{"groq", 413, nil, `{"error":{"code":"rate_limit_exceeded"}}`, large, "tokens"},
		{"groq", 413, nil, ``, client, "none"},
		{"groq", 429, nil, `{"error":{"message":"tokens per day (TPD): Limit"}}`, limited, "day"},
		{"groq", 429, nil, `{"error":{"message":"requests per minute (RPM): Limit"}}`, limited, "requests"},
		{"groq", 429, nil, `{"error":{"message":"audio seconds per day (ASD): Limit"}}`, limited, "day"},
		{"groq", 498, nil, ``, load, "capacity"},
		{"cohere", 429, nil, `{"message":"You are past the per month request limit"}`, money, "month"},
		{"cohere", 429, nil, `{"message":"Please wait and try again later"}`, limited, "requests"},
		{"cohere", 402, nil, ``, client, "none"},
		{"cohere", 498, nil, ``, client, "none"},
		{"deepseek", 429, nil, ``, limited, "concurrency"},
		{"deepseek", 402, nil, `{"error":{"message":"Insufficient Balance"}}`, money, "spend"},
		{"deepseek", 503, nil, ``, load, "capacity"},
		{"together", 429, nil, ``, limited, "unknown"},
		{"together", 503, nil, ``, load, "capacity"},
		{"together", 402, nil, ``, money, "spend"},
		{"fireworks", 412, nil, ``, money, "spend"},
		{"fireworks", 402, nil, ``, money, "spend"},
		{"fireworks", 503, nil, ``, load, "capacity"},
		{"openrouter", 402, nil, ``, money, "spend"},
		{"openrouter", 429, nil, `{"error":{"code":429,"metadata":{"provider_code":429}}}`, limited, "upstream"},
		{"openrouter", 429, nil, `{"error":{"code":429,"metadata":{"provider_code":null},"message":"free-models-per-day"}}`, limited, "day"},
		{"openrouter", 429, nil, `{"error":{"message":"free-models-per-min"}}`, limited, "requests"},
		{"openrouter", 503, nil, ``, load, "capacity"},
		{"openrouter", 408, nil, ``, upstream, "none"},
		{"xai", 429, nil, ``, limited, "unknown"},
		{"vllm", 429, nil, ``, limited, "unknown"},
		{"vllm", 503, nil, ``, load, "capacity"},
		{"generic", 429, nil, `{"detail":"Rate limit: tokens per minute"}`, limited, "tokens"},
		{"generic", 429, nil, `{"error":"too many requests per minute"}`, limited, "requests"},
		{"generic", 429, nil, `too many requests per minute`, limited, "requests"},
		{"generic", 429, nil, `{"code":"insufficient_quota"}`, money, "spend"},
		{"generic", 429, nil, `{"error":[1,{"code":{"x":true}}]}`, limited, "unknown"},
		{"generic", 302, nil, ``, client, "none"},
		{"generic", 201, nil, ``, provider.OK, "none"},
	} {
		r := profile(t, c.provider).Refusal(c.status, c.header, []byte(c.body))
		if r.Class != c.class || r.Scope != c.scope || r.Retryable != c.class.Retryable() {
			t.Errorf("%s %d %v %s: %+v, want %s, %s", c.provider, c.status, c.header, c.body, r, c.class, c.scope)
		}
		if !r.Retryable && (r.After != 0 || r.From != provider.FromNowhere) {
			t.Errorf("%s %d %s: a hint with a class that no wait cures: %+v", c.provider, c.status, c.body, r)
		}
	}
}

func TestRefusalHints(t *testing.T) {
	message := func(m string) string { return `{"error":{"message":"` + m + `"}}` }
	const ms = time.Millisecond
	for _, c := range []struct {
		provider string
		status   int
		header   http.Header
		body     string
		after    time.Duration
		from     provider.HintSource
	}{
		{"openai", 429, header("retry-after-ms", "1500.5", "retry-after", "9"), ``, 1500*ms + 500*time.Microsecond, "header"},
		{"openai", 429, header("retry-after-ms", "86400001", "retry-after", "9"), ``, 9 * time.Second, "header"},
		{"openai", 429, header("retry-after-ms", "-1", "retry-after", "0.25"), ``, 250 * ms, "header"},
		{"openai", 429, header("retry-after", "86400"), ``, 24 * time.Hour, "header"},
		{"openai", 429, header("retry-after", "86401"), message("try again in 2s."), 2 * time.Second, "body"},
		{"openai", 429, header("retry-after", "0"), ``, 0, "header"},
		{"openai", 429, header("retry-after", "Mon, 30 Nov 2026 12:01:00 GMT"), ``, time.Minute, "header"},
		{"openai", 429, header("retry-after", "Monday, 30-Nov-26 12:01:00 GMT"), ``, time.Minute, "header"},
		{"openai", 429, header("retry-after", "Mon, 30 Nov 2026 11:59:00 GMT"), ``, 0, ""},
		{"openai", 429, http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:01:00 GMT"}}, ``, 0, ""},
		{"openai", 429, header("retry-after", "1e3"), ``, 0, ""},
		{"openai", 429, header("retry-after", "+3"), ``, 0, ""},
		{"openai", 429, header("retry-after", "NaN"), ``, 0, ""},
		{"openai", 429, header("retry-after", "Inf"), ``, 0, ""},
		{"openai", 429, header("retry-after", "99999999999999999999999999"), ``, 0, ""},
		{"openai", 429, nil, message("Please try again in 14h29m11.04s. Visit"), 14*time.Hour + 29*time.Minute + 11040*ms, "body"},
		{"openai", 429, nil, message("Please try again in 120ms."), 120 * ms, "body"},
		{"openai", 429, nil, message("Please try again in 6m0s"), 6 * time.Minute, "body"},
		{"openai", 429, nil, message("Please try again in 20 seconds."), 20 * time.Second, "body"},
		{"openai", 429, nil, message("Please try again in 30h."), 0, ""},
		{"openai", 429, nil, message("Please try again in a while, or try again in 2s."), 2 * time.Second, "body"},
		{"openai", 429, nil, message("Please try again in 1..2s"), 0, ""},
		{"openai", 429, nil, message("Please try again in -5s"), 0, ""},
		{"openai", 429, nil, message("Please try again in 5"), 0, ""},
		{"openai", 429, nil, `{"error":{"message":"Please try again in 37`, 0, ""},
		{"openai", 429, nil, `{"error":{"message":"Please try again in 3m`, 0, ""},
		{"openai", 429, nil, `{"error":{"message":"Please try again in 3m2s. Vis`, 3*time.Minute + 2*time.Second, "body"},
		{"azure_openai", 429, nil, message("Please retry after 37 seconds."), 37 * time.Second, "body"},
		{"azure_openai", 429, nil, message("Please retry after 1 second."), time.Second, "body"},
		{"gemini", 429, nil, message("Please retry in 997.965142ms."), 997965142, "body"},
		{"gemini", 429, nil, `{"error":{"message":"retry in 9s","details":[{"retryDelay":"3s"},{"retryDelay":"5s"},{"retryDelay":7}]}}`, 5 * time.Second, "body"},
		{"gemini", 429, header("retry-after", "1"), `{"error":{"details":[{"retryDelay":"3s"}]}}`, time.Second, "header"},
		// The reset of what is exhausted.
		{"openai", 429, header("x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "8.64s", "x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "50s"), ``, 8640 * ms, "reset"},
		{"openai", 429, header("x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "50s"), message("on tokens per min (TPM)"), 50 * time.Second, "reset"},
		{"openai", 429, header("x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "50s"), ``, 0, ""},
		{"openai", 429, header("x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "50h"), ``, 0, ""},
		{"openai", 503, header("x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "50s"), ``, 0, ""},
		{"anthropic", 429, header("anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset", "2026-11-30T13:00:30+01:00"), ``, 30 * time.Second, "reset"},
		{"openrouter", 402, header("retry-after", "5"), ``, 0, ""},
	} {
		r := profile(t, c.provider).Refusal(c.status, c.header, []byte(c.body))
		if r.After != c.after || r.From != c.from {
			t.Errorf("%s %d %v %s: %v from %q, want %v from %q", c.provider, c.status, c.header, c.body, r.After, r.From, c.after, c.from)
		}
	}
}

func TestRefusalForbidsRetry(t *testing.T) {
	p := profile(t, "openai")
	r := p.Refusal(429, header("x-should-retry", "false", "retry-after", "3"), nil)
	if r.Class != limited || r.Retryable || r.From != provider.FromNowhere {
		t.Errorf("%+v", r)
	}
	r = p.Refusal(429, header("x-should-retry", "true"), []byte(`{"error":{"code":"insufficient_quota"}}`))
	if r.Retryable {
		t.Errorf("money was made retryable: %+v", r)
	}
}
