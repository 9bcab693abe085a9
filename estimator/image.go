package estimator

import "math"

// image is what the price of one image depends on. Width and height are 0 when
// the size is unknown: a remote image is never fetched (langchain-ai/langchain#26046).
type image struct {
	width, height int64
	low           bool
}

// addImage adds an image given as image_url, a string or {"url", "detail"}, or as
// an Anthropic source {"type":"base64","data"}.
func (p *prompt) addImage(url, source, detail []byte) {
	for key, f := range members(url) {
		switch string(key) {
		case "url":
			url = f
		case "detail":
			detail = f
		}
	}
	var data payload
	if kindOf(url) == str {
		if d, ok := dataURL(unquote(url)); ok {
			data = d
		}
	}
	for key, f := range members(source) {
		if string(key) == "data" && kindOf(f) == str {
			data = unquote(f)
		}
	}
	img := image{low: string(detail) == `"low"`}
	if w, h, ok := imageSize(data); ok {
		img.width, img.height = w, h
	}
	p.images = append(p.images, img)
}

// imageRule is how a family of models prices an image. The numbers are OpenAI's
// documentation as quoted and checked by third parties; Anthropic's are
// observed.
type imageRule struct {
	// base and tile are tokens per image and per tile of 512 pixels. 0 for a
	// family that counts patches.
	base, tile int64
	// patch is the side of a patch in pixels, limit the most patches that count,
	// and percent the tokens per hundred patches.
	patch, limit, percent int64
}

// tokens returns what an image costs.
func (r imageRule) tokens(img image) int64 {
	if r.patch > 0 {
		return r.patches(img)
	}
	if img.low {
		return r.base
	}
	return r.base + r.tile*tiles(img)
}

// patches counts the patches an image covers. One that must be shrunk counts as
// the limit: the documented way of shrinking gives 1452 patches for 1800x2400, but
// 4000x1474 was billed in full, where that way gives less.
func (r imageRule) patches(img image) int64 {
	n := r.limit
	if img.width > 0 {
		n = min(n, saturatingMul(ceilDiv(img.width, r.patch), ceilDiv(img.height, r.patch)))
	}
	return ceilDiv(n*r.percent, 100)
}

// maxTiles is a 2048x768 image, the largest that is left after shrinking.
const maxTiles = 8

// tiles shrinks an image to fit 2048x2048 and its shorter side to 768, rounding
// each time (a 2049x513 image has two rows of tiles, a 2050x513 one has one:
// community.openai.com 1281361), and counts the tiles it covers.
func tiles(img image) int64 {
	if img.width == 0 {
		return maxTiles
	}
	w, h := float64(img.width), float64(img.height)
	if f := 2048 / max(w, h); f < 1 {
		w, h = math.Round(w*f), math.Round(h*f)
	}
	if f := 768 / min(w, h); f < 1 {
		w, h = math.Round(w*f), math.Round(h*f)
	}
	side := func(px float64) int64 { return max(1, int64(math.Ceil(px/512))) }
	return side(w) * side(h)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
