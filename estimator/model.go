package estimator

import "strings"

// family is what the models whose names begin alike have in common.
type family struct {
	prefix    string
	tokenizer tokenizer
	image     imageRule
}

var (
	tiles85  = imageRule{base: 85, tile: 170}
	tilesO   = imageRule{base: 75, tile: 150}
	tiles5   = imageRule{base: 70, tile: 140} // documented; no bill was seen
	mini4o   = imageRule{base: 2833, tile: 5667}
	patch162 = imageRule{patch: 32, limit: 1536, percent: 162}
	patch172 = imageRule{patch: 32, limit: 1536, percent: 172}
	patch246 = imageRule{patch: 32, limit: 1536, percent: 246}
	claude28 = imageRule{patch: 28, limit: 4784, percent: 100}
	// 258 tokens per tile of 768 pixels (ai.google.dev/gemini-api/docs/tokens). No
	// largest image is documented: 13 tiles were billed in
	// langchain-ai/langchain-google#879.
	gemini768 = imageRule{patch: 768, limit: 16, percent: 25800}
)

// families is what tiktoken 0.14.0 knows, and how each family prices images. The
// factors of the mini and nano models are the documented ones; some were billed
// less (1.2 and 1.5).
var families = []family{
	{"gpt-4o", o200k, tiles85},
	{"gpt-4o-mini", o200k, mini4o},
	{"chatgpt-4o", o200k, tiles85},
	{"gpt-4.1", o200k, tiles85},
	{"gpt-4.1-mini", o200k, patch162},
	{"gpt-4.1-nano", o200k, patch246},
	{"gpt-4.5", o200k, tiles85},
	{"gpt-5", o200k, tiles5},
	{"gpt-5-mini", o200k, patch162},
	{"gpt-5-nano", o200k, patch246},
	{"gpt-5.4-mini", o200k, patch162},
	{"gpt-5.4-nano", o200k, patch246},
	{"o1", o200k, tilesO},
	{"o3", o200k, tilesO},
	{"o4", o200k, tilesO},
	{"o4-mini", o200k, patch172},
	{"gpt-oss", o200k, tiles85}, // o200k_harmony, the same for ordinary text
	{"gpt-4", cl100k, tiles85},
	{"gpt-3.5", cl100k, tiles85},
	{"gpt-35", cl100k, tiles85}, // as Azure spells it
	{"text-embedding-3", cl100k, tiles85},
	{"text-embedding-ada-002", cl100k, tiles85},
}

// others are the families of other makers, known by a word in the name of the model.
// A model distilled from one into another has the vocabulary of the latter, so deepseek
// comes last.
var others = []family{
	{"claude", claude, claude28},
	{"gemini", gemini, gemini768},
	{"gemma", gemini, gemini768},
	{"llama", llama, tiles85},
	{"qwen", qwen, tiles85},
	{"deepseek", deepseek, tiles85},
}

var unknown = family{"", o200k, tiles85}

// familyOf returns the family a model belongs to. A model it does not know is
// counted in o200k_base, which every new model of OpenAI has used so far, and known is
// false.
func familyOf(model string) (f family, known bool) {
	name := baseName(model)
	f = unknown
	for _, c := range families {
		if len(c.prefix) > len(f.prefix) && hasPrefix(name, c.prefix) {
			f, known = c, true
		}
	}
	if known {
		return f, true
	}
	for _, c := range others {
		if strings.Contains(name, c.prefix) {
			return c, true
		}
	}
	return f, false
}

// audioRate returns the tokens per second of audio: 32 for Gemini
// (ai.google.dev/gemini-api/docs/tokens), and for others the 10 that users report of
// OpenAI (community.openai.com 971012).
func (f *family) audioRate() int64 {
	if f.tokenizer == gemini {
		return 32
	}
	return 10
}

// baseName reduces the names routers and fine-tuning make to that of the model:
// "openai/GPT-4o" and "ft:gpt-4o:acme::1" to "gpt-4o".
func baseName(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	if name, ok := cutFineTune(name); ok {
		return name
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.TrimPrefix(name, "openai.") // as Bedrock spells it
}

// cutFineTune unwraps "ft:model:organisation:suffix:id", whose later fields may
// hold a slash.
func cutFineTune(name string) (string, bool) {
	before, after, ok := strings.Cut(name, "ft:")
	if !ok || before != "" && !strings.HasSuffix(before, "/") {
		return "", false
	}
	name, _, _ = strings.Cut(after, ":")
	return name, true
}

// hasPrefix reports whether a name is prefix or goes on with a separator, so
// that "gpt-4" does not claim a "gpt-47".
func hasPrefix(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || strings.IndexByte("-.:@_", rest[0]) >= 0)
}
