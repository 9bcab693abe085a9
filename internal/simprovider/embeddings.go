package simprovider

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"unicode/utf8"
)

const (
	// Real models have 1,536 dimensions and more; nobody looks at these.
	defaultDimensions = 64
	maxDimensions     = 3072
	maxInputs         = 2048 // OpenAI's documented bound
)

type embeddingsBody struct {
	Model          string          `json:"model"`
	Input          embeddingsInput `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

// embeddingsInput is a string, an array of strings, an array of token numbers, or
// an array of such arrays.
type embeddingsInput struct {
	seeds  []uint64 // one per input: a hash of it
	runes  int64    // code points of all strings
	tokens int64    // numbers in all arrays
	bad    bool
}

func (in *embeddingsInput) UnmarshalJSON(b []byte) error {
	*in = embeddingsInput{}
	var (
		text   string
		texts  []string
		number []uint64
		arrays [][]uint64
	)
	switch {
	case string(b) == "null":
	case json.Unmarshal(b, &text) == nil:
		in.addText(text)
	case json.Unmarshal(b, &texts) == nil:
		for _, t := range texts {
			in.addText(t)
		}
	case json.Unmarshal(b, &number) == nil:
		in.addTokens(number)
	case json.Unmarshal(b, &arrays) == nil:
		for _, a := range arrays {
			in.addTokens(a)
		}
	default:
		in.bad = true
	}
	return nil
}

func (in *embeddingsInput) addText(text string) {
	in.bad = in.bad || text == ""
	in.runes += int64(utf8.RuneCountInString(text))
	h := fnv.New64a()
	h.Write([]byte(text))
	in.seeds = append(in.seeds, h.Sum64())
}

func (in *embeddingsInput) addTokens(numbers []uint64) {
	in.bad = in.bad || len(numbers) == 0
	in.tokens += int64(len(numbers))
	h := fnv.New64a()
	for _, n := range numbers {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	in.seeds = append(in.seeds, h.Sum64())
}

// parseEmbeddings reads and checks a body. It keeps no part of it.
func parseEmbeddings(data []byte) (*embeddingsBody, *apiError) {
	b := new(embeddingsBody)
	if err := parseJSON(data, b); err != nil {
		return nil, err
	}
	switch n := len(b.Input.seeds); {
	case b.Model == "":
		return nil, missingModel()
	case b.Input.bad || n == 0 || n > maxInputs:
		return nil, invalid("input", "invalid_value", "Invalid value for 'input': expected 1 to 2048 strings or arrays of tokens, none of them empty.")
	case b.EncodingFormat != "" && b.EncodingFormat != "float" && b.EncodingFormat != "base64":
		return nil, invalid("encoding_format", "invalid_value", "Invalid value for 'encoding_format': expected float or base64.")
	case b.Dimensions != nil && (*b.Dimensions < 1 || *b.Dimensions > maxDimensions):
		return nil, invalid("dimensions", "invalid_value", fmt.Sprintf("Invalid value for 'dimensions': expected an integer between 1 and %d.", maxDimensions))
	}
	return b, nil
}

// serveEmbeddings answers POST /v1/embeddings.
func (s *Server) serveEmbeddings(w http.ResponseWriter, r *http.Request) *apiError {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := readBody(w, r, buf); err != nil {
		return err
	}
	req, err := parseEmbeddings(buf.Bytes())
	if err != nil {
		return err
	}
	m, err := s.model(req.Model)
	if err != nil {
		return err
	}
	n := tokenCount(req.Input.runes) + req.Input.tokens
	c, err := s.call(r.Header, n, n, 0)
	if err != nil {
		return err
	}
	g, f, err := s.enter(w, r, m, c)
	if err != nil {
		return err
	}
	defer s.finish(g)
	if !s.sleep(r.Context(), g.at+s.cfg.FirstByte+f.delay) {
		return errGone
	}
	s.finish(g)
	buf.Reset()
	buf.Write(req.appendAnswer(buf.AvailableBuffer(), m, g.input))
	writeJSON(w, http.StatusOK, buf.Bytes())
	return nil
}

func (e *embeddingsBody) appendAnswer(b []byte, m *model, used int64) []byte {
	dimensions := defaultDimensions
	if e.Dimensions != nil {
		dimensions = *e.Dimensions
	}
	b = append(b, `{"object":"list","data":[`...)
	for i, seed := range e.Input.seeds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		b = appendVector(b, vector(seed, dimensions), e.EncodingFormat == "base64")
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = append(b, m.json...)
	return fmt.Appendf(b, `,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, used, used)
}

// vector is a vector of length 1 that depends on the seed alone.
func vector(seed uint64, dimensions int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	wide := make([]float64, dimensions)
	sum := 0.0
	for i := range wide {
		wide[i] = rng.NormFloat64()
		sum += wide[i] * wide[i]
	}
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(wide[i] / math.Sqrt(sum))
	}
	return v
}

// appendVector appends the shortest decimals that mean the same float32, or the
// float32s themselves, little-endian, in base64.
func appendVector(b []byte, v []float32, asBase64 bool) []byte {
	if asBase64 {
		raw := make([]byte, 0, 4*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}
