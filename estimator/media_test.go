package estimator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	stdimage "image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

// encoded returns an image of a size in each format the standard library writes,
// the JPEG also behind metadata that is longer than anyone wants to decode.
func encoded(t *testing.T, w, h int) map[string][]byte {
	t.Helper()
	img := stdimage.NewPaletted(stdimage.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, img), jpeg.Encode(&j, img, nil), gif.Encode(&g, img, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	segment := append([]byte{0xff, 0xe1, 0xff, 0xf0}, make([]byte, 0xfff0-2)...)
	exif := append([]byte{0xff, 0xd8, 0xff}, bytes.Repeat(segment, 3)...)
	exif = append(exif, j.Bytes()[2:]...)
	return map[string][]byte{"png": p.Bytes(), "jpeg": j.Bytes(), "gif": g.Bytes(), "exif": exif,
		"webp lossy": webp("VP8 ", 0x30, 0x01, 0, 0x9d, 0x01, 0x2a, byte(w), byte(w>>8), byte(h), byte(h>>8)),
		"webp lossless": webp("VP8L", append([]byte{0x2f},
			binary.LittleEndian.AppendUint32(nil, uint32(w-1)|uint32(h-1)<<14)...)...),
		"webp extended": webp("VP8X", 0, 0, 0, 0, byte(w-1), byte((w-1)>>8), 0, byte(h-1), byte((h-1)>>8), 0)}
}

func webp(chunk string, data ...byte) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WEBP"+chunk), 10, 0, 0, 0)
	return append(append(b, data...), make([]byte, 20)...)
}

func TestImageSizes(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {640, 480}, {3000, 2}} {
		for name, data := range encoded(t, size[0], size[1]) {
			p := payload(base64.StdEncoding.EncodeToString(data))
			w, h, ok := imageSize(p)
			if !ok || w != int64(size[0]) || h != int64(size[1]) {
				t.Errorf("%s: got %dx%d %v, want %v", name, w, h, ok, size)
			}
			// Cut anywhere, and with any byte changed, it is a size or none.
			for n := range min(len(p), 200) {
				imageSize(p[:n])
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				bad := bytes.Clone(p)
				bad[r.IntN(min(len(bad), 100))] = byte(r.IntN(256))
				if w, h, ok := imageSize(bad); ok && (w <= 0 || h <= 0) {
					t.Errorf("%s: %dx%d is no size", name, w, h)
				}
			}
		}
	}
	endless := append([]byte{0xff, 0xd8}, bytes.Repeat([]byte{0xff, 0xe1, 0, 2}, 10_000)...)
	for _, p := range []payload{nil, payload("!!!!"), payload(base64.StdEncoding.EncodeToString(endless)),
		payload(strings.Repeat("AAAA", 100))} {
		if w, h, ok := imageSize(p); ok {
			t.Errorf("%.20s: %dx%d", p, w, h)
		}
	}
}

// The same image costs the same in every form a client sends it in.
func TestImageForms(t *testing.T) {
	e := newEstimator(t, Config{})
	data := base64.StdEncoding.EncodeToString(encoded(t, 1024, 1024)["png"])
	url := "data:image/png;base64," + data
	for _, part := range []string{
		`{"type":"image_url","image_url":{"url":"` + url + `"}}`,
		`{"type":"image_url","image_url":{"url":"` + strings.ReplaceAll(url, "/", `\/`) + `","detail":"high"}}`,
		`{"type":"image_url","image_url":"` + url + `"}`,
		`{"type":"input_image","image_url":"` + url + `","detail":"auto"}`,
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`,
	} {
		got := chatTokens(t, e, "gpt-4o", `[{"role":"user","content":[`+part+`]}]`)
		if got != 3+3+1+765 {
			t.Errorf("%.60s: got %d, want %d", part, got, 3+3+1+765)
		}
	}
	for _, url := range []string{"", "data:", "data:image/png;base64,", "data:image/svg+xml,<svg/>", "http://[", url[:40]} {
		b, err := json.Marshal(url)
		if err != nil {
			t.Fatal(err)
		}
		got := chatTokens(t, e, "gpt-4o", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":`+string(b)+`}}]}]`)
		if got != 3+3+1+1445 {
			t.Errorf("%q: got %d, want the most an image costs", url, got)
		}
	}
}

func TestAudio(t *testing.T) {
	e := newEstimator(t, Config{})
	wav := func(rate uint32, seconds int) []byte {
		h := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00"),
			binary.LittleEndian.AppendUint32(nil, rate)...)
		return append(h, make([]byte, max(0, int(rate)*seconds-len(h)))...)
	}
	for _, c := range []struct {
		name         string
		data         []byte
		input, upper int64
	}{
		{"wav of 12 s", wav(32000, 12), 120, 120},
		{"compressed, 12 s of 32 kbit/s", make([]byte, 48_000), 120, 480},
		{"wav without a rate", wav(0, 0)[:32], 10, 10},
	} {
		body := `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"x","data":"` +
			base64.StdEncoding.EncodeToString(c.data) + `"}}]}]}`
		got := measure(t, e, "gpt-4o", parseChat(t, body))
		if got.Input != 7+c.input || got.Upper != 7+c.upper || got.Method != Bound {
			t.Errorf("%s: %+v, want %d to %d", c.name, got, 7+c.input, 7+c.upper)
		}
	}
}
