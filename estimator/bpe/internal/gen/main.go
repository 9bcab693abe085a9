// Command gen writes the vocabularies that package bpe embeds, from the files of
// tiktoken that pkoukk/tiktoken-go-loader holds. Run it in the folder of bpe.
package main

import (
	"bytes"
	"compress/flate"
	"fmt"
	"log"
	"os"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

func main() {
	log.SetFlags(0)
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		if err := write(name); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
}

func write(name string) error {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		return err
	}
	tokens := make([]string, len(ranks))
	for token, rank := range ranks {
		if rank >= len(tokens) || tokens[rank] != "" || token == "" || len(token) > 255 {
			return fmt.Errorf("token %q of rank %d", token, rank)
		}
		tokens[rank] = token
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return err
	}
	var lengths, text []byte
	for _, token := range tokens {
		lengths = append(lengths, byte(len(token)))
		text = append(text, token...)
	}
	for _, part := range [][]byte{lengths, text} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name+".bin", b.Bytes(), 0o644)
}
