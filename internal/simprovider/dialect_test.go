package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// headers checks some headers; an empty value means that there is none.
func headers(t *testing.T, rec *httptest.ResponseRecorder, want map[string]string) {
	t.Helper()
	for name, v := range want {
		if got := rec.Header().Get(name); got != v {
			t.Errorf("%s: %q, want %q", name, got, v)
		}
	}
}

// sameJSON compares a body with JSON in which ids are written as ID.
func sameJSON(t *testing.T, rec *httptest.ResponseRecorder, want string) {
	t.Helper()
	body := regexp.MustCompile(`req_[0-9a-f]+`).ReplaceAllString(rec.Body.String(), "ID")
	var a, b any
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("body %s\nwant %s", body, want)
	}
}

// TestDialects checks the headers of an answer, and headers and body of a refusal
// for tokens and of one for requests. The test's clock begins at 2000-01-01.
func TestDialects(t *testing.T) {
	run := func(name string, cfg Config, f func(t *testing.T, s *Server)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.FirstByte, cfg.OutputPerMinute = -1, -1
				cfg.Models = []Model{{ID: "m"}}
				f(t, mustNew(t, cfg))
			})
		})
	}
	run("openai", Config{Imitate: KindOpenAI, RPM: 500, TPM: 30_000}, func(t *testing.T, s *Server) {
		headers(t, ask(s, KindOpenAI, 1, 28_432), map[string]string{
			"X-Ratelimit-Limit-Requests": "500", "X-Ratelimit-Remaining-Requests": "499", "X-Ratelimit-Reset-Requests": "120ms",
			"X-Ratelimit-Limit-Tokens": "30000", "X-Ratelimit-Remaining-Tokens": "1568", "X-Ratelimit-Reset-Tokens": "56.864s",
			"Retry-After": "", "X-Request-Id": "req_" + s.run + "1",
		})
		rec := ask(s, KindOpenAI, 1, 3120)
		headers(t, rec, map[string]string{"Retry-After": "4", "Retry-After-Ms": "3104", "X-Ratelimit-Remaining-Tokens": "1568", "X-Ratelimit-Reset-Tokens": "56.864s"})
		sameJSON(t, rec, `{"error":{"message":"Rate limit reached for m in organization org-sim on tokens per min (TPM): Limit 30000, Used 28432, Requested 3120. Please try again in 3.104s. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`)
		rec = ask(s, KindOpenAI, 1, 41_250)
		headers(t, rec, map[string]string{"X-Should-Retry": "false", "Retry-After": ""})
		sameJSON(t, rec, `{"error":{"message":"Request too large for m in organization org-sim on tokens per min (TPM): Limit 30000, Requested 41250. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`)
	})
	run("azure", Config{Imitate: KindAzure, RPM: 12, TPM: 10_000}, func(t *testing.T, s *Server) {
		headers(t, ask(s, KindAzure, 1, 999), map[string]string{
			"X-Ratelimit-Limit-Requests": "12", "X-Ratelimit-Remaining-Requests": "1", "X-Ratelimit-Reset-Requests": "10",
			"X-Ratelimit-Limit-Tokens": "10000", "X-Ratelimit-Remaining-Tokens": "9000", "X-Ratelimit-Reset-Tokens": "60",
		})
		time.Sleep(23460 * time.Millisecond)
		rec := ask(s, KindAzure, 1, 9999)
		headers(t, rec, map[string]string{"Retry-After": "37", "Retry-After-Ms": "36540", "X-Ms-Region": "Sim", "X-Ratelimit-Limit-Tokens": "", "X-Ratelimit-Remaining-Requests": ""})
		sameJSON(t, rec, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current AIServices S0 pricing tier. Please retry after 37 seconds."}}`)
		ask(s, KindAzure, 1, 1)
		ask(s, KindAzure, 1, 1)
		time.Sleep(5 * time.Second)
		rec = ask(s, KindAzure, 1, 1)
		headers(t, rec, map[string]string{"Retry-After": "5"})
		sameJSON(t, rec, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded call rate limit of your current AIServices S0 pricing tier. Please retry after 5 seconds."}}`)
		rec, _ = do(s, "POST", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":""}]}`)
		if _, kind, _, code := errorOf(t, rec); rec.Code != 404 || kind != "invalid_request_error" || code != "model_not_found" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
	run("anthropic", Config{Imitate: KindAnthropic, RPM: 1000, TPM: 30_000, OTPM: 8000}, func(t *testing.T, s *Server) {
		post := func(chars int) *httptest.ResponseRecorder {
			rec, _ := do(s, "POST", "/v1/messages", texts("m", `,"max_tokens":100`, chars), "X-Sim-Output-Tokens", "100")
			return rec
		}
		// 22,500 of 30,000 are left after 7,500; they need 15 s.
		headers(t, post(30_000), map[string]string{
			"Anthropic-Ratelimit-Requests-Limit": "1000", "Anthropic-Ratelimit-Requests-Remaining": "999", "Anthropic-Ratelimit-Requests-Reset": "2000-01-01T00:00:01Z",
			"Anthropic-Ratelimit-Input-Tokens-Limit": "30000", "Anthropic-Ratelimit-Input-Tokens-Remaining": "23000", "Anthropic-Ratelimit-Input-Tokens-Reset": "2000-01-01T00:00:15Z",
			"Anthropic-Ratelimit-Output-Tokens-Limit": "8000", "Anthropic-Ratelimit-Output-Tokens-Remaining": "8000", "Anthropic-Ratelimit-Output-Tokens-Reset": "2000-01-01T00:00:00Z",
			"Anthropic-Ratelimit-Tokens-Limit": "38000", "Anthropic-Ratelimit-Tokens-Remaining": "31000", "Anthropic-Ratelimit-Tokens-Reset": "2000-01-01T00:00:15Z",
			"X-Ratelimit-Limit-Tokens": "", "Retry-After": "", "Request-Id": "req_" + s.run + "1",
		})
		rec := post(118_000) // 29,500: 7,000 more than there is
		headers(t, rec, map[string]string{"Retry-After": "14", "Retry-After-Ms": "", "Anthropic-Ratelimit-Input-Tokens-Remaining": "23000", "Anthropic-Ratelimit-Output-Tokens-Remaining": "8000"})
		sameJSON(t, rec, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute (org: 00000000-0000-0000-0000-000000000000, model: m). For details, refer to: https://docs.claude.com/en/api/rate-limits."},"request_id":"ID"}`)
		rec = post(120_001)
		headers(t, rec, map[string]string{"Retry-After": "", "X-Should-Retry": "false"})
		rec, _ = do(s, "POST", "/v1/messages", texts("m", ``, 1))
		sameJSON(t, rec, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: Field required"},"request_id":"ID"}`)
		rec, _ = do(s, "POST", "/v1/messages", texts("x", `,"max_tokens":1`, 1))
		if rec.Code != 404 || !strings.Contains(rec.Body.String(), `"type":"not_found_error"`) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
	run("bedrock", Config{Imitate: KindBedrock, TPM: 1000}, func(t *testing.T, s *Server) {
		for name := range ask(s, KindBedrock, 100, 1000).Header() {
			if strings.Contains(strings.ToLower(name), "ratelimit") {
				t.Errorf("a header %s", name)
			}
		}
		rec := ask(s, KindBedrock, 100, 1000)
		headers(t, rec, map[string]string{"X-Amzn-Errortype": "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/", "X-Amzn-Requestid": "req_" + s.run + "3", "Retry-After": ""})
		sameJSON(t, rec, `{"message":"Too many tokens, please wait before trying again."}`)
		rec, _ = do(s, "POST", "/model/m/converse", `{"messages":[]}`)
		if rec.Code != 400 || !strings.HasPrefix(rec.Header().Get("X-Amzn-Errortype"), "ValidationException:") {
			t.Errorf("%d %v", rec.Code, rec.Header())
		}
	})
	run("groq", Config{Imitate: KindGroq, RPM: Unlimited, TPM: 15_000, RPD: 14_400}, func(t *testing.T, s *Server) {
		headers(t, ask(s, KindGroq, 1, 11_390), map[string]string{
			"X-Ratelimit-Limit-Requests": "14400", "X-Ratelimit-Remaining-Requests": "14399", "X-Ratelimit-Reset-Requests": "6s",
			"X-Ratelimit-Limit-Tokens": "15000", "X-Ratelimit-Remaining-Tokens": "3610", "X-Ratelimit-Reset-Tokens": "45.56s", "Retry-After": "",
		})
		rec := ask(s, KindGroq, 1, 4351)
		headers(t, rec, map[string]string{"Retry-After": "3", "Retry-After-Ms": "", "X-Ratelimit-Remaining-Tokens": "3610"})
		sameJSON(t, rec, "{\"error\":{\"message\":\"Rate limit reached for model `m` in organization `org_sim` service tier `on_demand` on tokens per minute (TPM): Limit 15000, Used 11390, Requested 4351. Please try again in 2.964s. Visit https://console.groq.com/docs/rate-limits for more information.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}")
		rec = ask(s, KindGroq, 1, 17_152)
		headers(t, rec, map[string]string{"Retry-After": "", "X-Should-Retry": "false"})
		if rec.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", rec.Code)
		}
		sameJSON(t, rec, "{\"error\":{\"message\":\"Request too large for model `m` in organization `org_sim` service tier `on_demand` on tokens per minute (TPM): Limit 15000, Requested 17152, please reduce your message size and try again.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}")
	})
}

// TestWordsWithoutKind: the path's API gives the words, the rules stay.
func TestWordsWithoutKind(t *testing.T) {
	s := mustNew(t, instant())
	rec, _ := do(s, "POST", "/v1/messages", `{}`)
	sameJSON(t, rec, `{"type":"error","error":{"type":"invalid_request_error","message":"model: Field required"},"request_id":"ID"}`)
	rec, _ = do(s, "POST", "/model/gpt-4o-mini/converse", `{}`)
	sameJSON(t, rec, `{"message":"The messages array must hold at least one message."}`)
	rec, _ = do(s, "POST", "/v1/responses", `{"model":"gpt-4o-mini"}`)
	if _, _, param, _ := errorOf(t, rec); param != "input" {
		t.Errorf("%s", rec.Body)
	}
}

func TestOtherKeyHeaders(t *testing.T) {
	cfg := instant()
	cfg.APIKey = "right"
	s := mustNew(t, cfg)
	for _, name := range []string{"X-Api-Key", "Api-Key"} {
		if code := chat(s, "x", "", name, "right").Code; code != 200 {
			t.Errorf("%s: %d", name, code)
		}
		if code := chat(s, "x", "", name, "wrong").Code; code != 401 {
			t.Errorf("wrong %s: %d", name, code)
		}
	}
}
