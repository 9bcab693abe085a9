package estimator

import (
	"encoding/binary"
)

// imageSize reads width and height from the header of a PNG, GIF, WebP or JPEG
// image; ok is false for anything else.
func imageSize(p payload) (w, h int64, ok bool) {
	head := p.read(0, 30)
	if head == nil {
		// Too short for WebP; a whole GIF may be that short.
		if head = p.read(0, 10); head == nil {
			return 0, 0, false
		}
	}
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case string(head[:6]) == "GIF87a", string(head[:6]) == "GIF89a":
		w, h = int64(le.Uint16(head[6:])), int64(le.Uint16(head[8:]))
	case len(head) < 30:
		return 0, 0, false
	case string(head[:8]) == "\x89PNG\r\n\x1a\n" && string(head[12:16]) == "IHDR":
		w, h = int64(be.Uint32(head[16:])), int64(be.Uint32(head[20:]))
	case string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		w, h = webpSize(head)
	case string(head[:2]) == "\xff\xd8":
		w, h = jpegSize(p)
	}
	return w, h, w > 0 && h > 0
}

// webpSize reads the three forms of the format: lossy, lossless and extended
// (RFC 9649).
func webpSize(head []byte) (w, h int64) {
	le := binary.LittleEndian
	switch string(head[12:16]) {
	case "VP8 ":
		return int64(le.Uint16(head[26:]) & 0x3fff), int64(le.Uint16(head[28:]) & 0x3fff)
	case "VP8L":
		bits := le.Uint32(head[21:])
		return int64(bits&0x3fff) + 1, int64(bits>>14&0x3fff) + 1
	case "VP8X":
		return int64(le.Uint32(head[24:])&0xffffff) + 1, int64(le.Uint32(head[26:])>>8) + 1
	}
	return 0, 0
}

// maxSegments is how many segments of a JPEG file are looked at. A camera writes
// a dozen before the frame header; each costs a decoded group or two, however
// large the segment is.
const maxSegments = 64

// jpegSize goes from segment to segment up to the first frame header.
func jpegSize(p payload) (w, h int64) {
	off := 2
	for range maxSegments {
		s := p.read(off, 9)
		if s == nil || s[0] != 0xff {
			return 0, 0
		}
		switch marker := s[1]; {
		case marker == 0xff: // fill byte
			off++
		case 0xc0 <= marker && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			return int64(binary.BigEndian.Uint16(s[7:])), int64(binary.BigEndian.Uint16(s[5:]))
		default:
			off += 2 + int(binary.BigEndian.Uint16(s[2:]))
		}
	}
	return 0, 0
}
