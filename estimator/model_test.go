package estimator

import "testing"

func TestModelTable(t *testing.T) {
	for _, c := range []struct {
		model string
		tok   tokenizer
		known bool
		image imageRule
	}{
		{"gpt-4o", o200k, true, tiles85},
		{"gpt-4o-2024-08-06", o200k, true, tiles85},
		{"gpt-4o-mini", o200k, true, mini4o},
		{"GPT-4o-Mini-2024-07-18", o200k, true, mini4o},
		{"chatgpt-4o-latest", o200k, true, tiles85},
		{"gpt-4.1", o200k, true, tiles85},
		{"gpt-4.1-mini-2025-04-14", o200k, true, patch162},
		{"gpt-4.1-nano", o200k, true, patch246},
		{"gpt-4.5-preview", o200k, true, tiles85},
		{"gpt-5", o200k, true, tiles5},
		{"gpt-5.1", o200k, true, tiles5},
		{"gpt-5.2-codex", o200k, true, tiles5},
		{"gpt-5-mini", o200k, true, patch162},
		{"gpt-5.4-mini", o200k, true, patch162},
		{"o1", o200k, true, tilesO}, // pkoukk/tiktoken-go#55
		{"o1-mini", o200k, true, tilesO},
		{"o3-mini-2025-01-31", o200k, true, tilesO},
		{"o4-mini", o200k, true, patch172},
		{"gpt-oss-20b", o200k, true, tiles85},
		{"gpt-oss:120b", o200k, true, tiles85},
		{"gpt-4", cl100k, true, tiles85},
		{"gpt-4-turbo-2024-04-09", cl100k, true, tiles85},
		{"gpt-4-32k-0314", cl100k, true, tiles85},
		{"gpt-3.5-turbo-0125", cl100k, true, tiles85},
		{"gpt-35-turbo-16k", cl100k, true, tiles85},
		{"text-embedding-3-large", cl100k, true, tiles85},
		{"text-embedding-ada-002", cl100k, true, tiles85},
		{"openai/gpt-4o", o200k, true, tiles85},
		{"openrouter/openai/gpt-4", cl100k, true, tiles85},
		{" gpt-4o:free ", o200k, true, tiles85},
		{"openai.gpt-oss-20b-1:0", o200k, true, tiles85},
		// openai/tiktoken#363, #329: not cl100k, as gpt-4 would be.
		{"ft:gpt-4o:acme::abc123", o200k, true, tiles85},
		{"ft:gpt-4o-mini-2024-07-18:acme/team:x/y:1", o200k, true, mini4o},
		{"openai/ft:gpt-3.5-turbo:acme::1", cl100k, true, tiles85},
		{"claude-sonnet-4-5", claude, true, claude28},
		{"us.anthropic.claude-3-haiku-20240307-v1:0", claude, true, claude28},
		{"gemini-2.5-pro", gemini, true, gemini768},
		{"google/gemma-3-27b-it", gemini, true, gemini768},
		{"meta-llama/Llama-3.1-8B", llama, true, tiles85},
		{"llama3.2:1b", llama, true, tiles85},
		{"Qwen/Qwen3-235B-A22B", qwen, true, tiles85},
		{"deepseek-chat", deepseek, true, tiles85},
		{"deepseek-ai/DeepSeek-R1-Distill-Llama-70B", llama, true, tiles85},
		{"gpt-6", o200k, false, tiles85},
		{"gpt-47", o200k, false, tiles85},
		{"o10", o200k, false, tiles85},
		{"ft:", o200k, false, tiles85},
		{"/", o200k, false, tiles85},
		{"", o200k, false, tiles85},
	} {
		f, known := familyOf(c.model)
		if f.tokenizer != c.tok || known != c.known || f.image != c.image {
			t.Errorf("%q: got %v %v %+v, want %v %v %+v", c.model, f.tokenizer, known, f.image, c.tok, c.known, c.image)
		}
	}
}

// The roles that count as one token are one, in both vocabularies.
func TestCommonRolesAreOneToken(t *testing.T) {
	for enc := range modelOf {
		c, err := tokenizer(enc).load()
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []string{"system", "user", "assistant", "developer", "tool", "function"} {
			var p prompt
			p.role([]byte(role))
			if n, _ := c.count(role); p.fixed != int64(n) || len(p.ends) > 0 {
				t.Errorf("%v: role %s has %d tokens, counted as %d", tokenizer(enc), role, n, p.fixed)
			}
		}
	}
}
