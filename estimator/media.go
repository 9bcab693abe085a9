package estimator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// payload is base64 text of which only a few bytes are ever decoded.
type payload []byte

// size returns the number of bytes encoded.
func (p payload) size() int64 {
	return int64(len(bytes.TrimRight(p, "="))) * 3 / 4
}

// read returns n bytes from offset, or nil when they are not all there. n is at
// most a few dozen.
func (p payload) read(offset, n int) []byte {
	if offset < 0 || int64(offset+n) > p.size() {
		return nil
	}
	from, to := offset/3*4, min((offset+n+2)/3*4, len(p))
	group := bytes.TrimRight(p[from:to], "=")
	b, err := base64.RawStdEncoding.AppendDecode(make([]byte, 0, 48), group)
	if skip := offset % 3; err == nil && len(b) >= skip+n {
		return b[skip : skip+n]
	}
	return nil
}

// dataURL returns the payload of a base64 data URL.
func dataURL(s []byte) (payload, bool) {
	head, data, ok := bytes.Cut(s, []byte(","))
	return data, ok && bytes.HasPrefix(head, []byte("data:")) && bytes.HasSuffix(head, []byte(";base64"))
}

// audio is the length of all audio in a prompt: seconds where a header tells,
// and bytes of compressed data.
type audio struct{ seconds, bytes int64 }

// Compressed audio is priced as if it had 32 kbit/s, little for speech, and bounded
// by the 8 kbit/s that are the least an MP3 frame can have.
const (
	audioBytesPerSecond      = 4000
	audioBytesPerSecondLeast = 1000
)

// tokens returns what the audio costs, and the most it may.
func (a audio) tokens(perSecond int64) (n, upper int64) {
	at := func(bytesPerSecond int64) int64 {
		return saturatingMul(a.seconds+ceilDiv(a.bytes, bytesPerSecond), perSecond)
	}
	return at(audioBytesPerSecond), at(audioBytesPerSecondLeast)
}

// addAudio adds {"data": base64, "format": "wav" or another}.
func (p *prompt) addAudio(v []byte) {
	var data payload
	for key, f := range members(v) {
		if string(key) == "data" && kindOf(f) == str {
			data = unquote(f)
		}
	}
	if d, ok := dataURL(data); ok {
		data = d
	}
	switch rate := wavBytesPerSecond(data); {
	case len(data) == 0:
		p.files++
	case rate > 0:
		p.audio.seconds += (data.size() + rate - 1) / rate
	default:
		p.audio.bytes += data.size()
	}
}

// wavBytesPerSecond reads the byte rate of a RIFF/WAVE header, 0 for other data.
// The provider decodes by the same header, so a false one fools nobody.
func wavBytesPerSecond(p payload) int64 {
	h := p.read(0, 32)
	if h == nil || string(h[:4]) != "RIFF" || string(h[8:16]) != "WAVEfmt " {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(h[28:]))
}
