package simprovider

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

type embeddingsAnswer[V any] struct {
	Object, Model string
	Data          []struct {
		Object    string
		Index     int
		Embedding V
	}
	Usage struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	}
}

func embed(s *Server, input, extra string) *httptest.ResponseRecorder {
	rec, _ := do(s, http.MethodPost, "/v1/embeddings", `{"model":"text-embedding-3-small","input":`+input+extra+`}`)
	return rec
}

func TestBase64EqualsFloat(t *testing.T) {
	s := mustNew(t, instant())
	for _, extra := range []string{"", `,"dimensions":7`} {
		floats := decode[embeddingsAnswer[[]float32]](t, embed(s, `["one","two","日本語"]`, extra+`,"encoding_format":"float"`))
		coded := decode[embeddingsAnswer[string]](t, embed(s, `["one","two","日本語"]`, extra+`,"encoding_format":"base64"`))
		if len(floats.Data) != 3 || len(coded.Data) != 3 {
			t.Fatalf("%d and %d embeddings", len(floats.Data), len(coded.Data))
		}
		for i, d := range floats.Data {
			raw, err := base64.StdEncoding.DecodeString(coded.Data[i].Embedding)
			if err != nil || d.Index != i || coded.Data[i].Index != i {
				t.Fatalf("%d: %v, indices %d and %d", i, err, d.Index, coded.Data[i].Index)
			}
			var v []float32
			length := 0.0
			for ; len(raw) >= 4; raw = raw[4:] {
				x := math.Float32frombits(binary.LittleEndian.Uint32(raw))
				v = append(v, x)
				length += float64(x) * float64(x)
			}
			if !slices.Equal(v, d.Embedding) || len(raw) != 0 || math.Abs(length-1) > 1e-5 {
				t.Errorf("%d: base64 %v, float %v, length² %v", i, v, d.Embedding, length)
			}
			if want := map[string]int{"": defaultDimensions}[extra]; want != 0 && len(v) != want || want == 0 && len(v) != 7 {
				t.Errorf("%d dimensions", len(v))
			}
		}
	}
}

func TestEmbeddingsDependOnTheInputAlone(t *testing.T) {
	other := instant()
	other.Seed = 7
	get := func(cfg Config, input string) []float32 {
		return decode[embeddingsAnswer[[]float32]](t, embed(mustNew(t, cfg), input, "")).Data[0].Embedding
	}
	if !slices.Equal(get(instant(), `"é"`), get(other, `["\u00e9","x"]`)) {
		t.Error("the same text has two embeddings")
	}
	if slices.Equal(get(instant(), `"a"`), get(instant(), `"b"`)) {
		t.Error("two texts have the same embedding")
	}
}

func TestEmbeddingsCharge(t *testing.T) {
	for input, want := range map[string]int64{
		`"12345678"`:           2,
		`["日本語","ab"]`:         2,
		`[1,2,3]`:              3,
		`[[1,2,3],[4]]`:        4,
		`["\ud83d\ude00abc!"]`: 2,
	} {
		s := mustNew(t, instant())
		got := decode[embeddingsAnswer[any]](t, embed(s, input, ""))
		if st := s.Stats(); got.Usage.Prompt != want || got.Usage.Total != want || st.TokensAdmitted != want || st.TokensCharged != want || st.InFlight != 0 {
			t.Errorf("%s: usage %+v, counts %+v, want %d", input, got.Usage, st.Counts, want)
		}
	}
}
