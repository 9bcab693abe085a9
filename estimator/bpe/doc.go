// Package bpe counts the tokens of a text in OpenAI's encodings o200k_base and
// cl100k_base: the same number as OpenAI's own tokenizer, at 10 to 100 MB/s and
// without garbage.
//
// # How it works
//
// An encoding is a regular expression and a vocabulary. The expression splits a
// text into pieces (words with the space before them, up to three digits, runs of
// punctuation or white space); here it is a function written by hand. A piece that
// is in the vocabulary is one token. Any other starts as its single bytes, and of
// all neighbours whose union is in the vocabulary those of the lowest rank are
// merged, until there are none: byte pair encoding. Only the number is of interest,
// so no token ids are kept.
//
// The neighbours of a short piece are looked through for every merge. Those of a
// long one are the leaves of a tournament tree, so that a piece of n bytes takes
// n log n steps and not n².
//
// The vocabulary is a hash table of 4 bytes per slot and 8 per token, 4 MB for
// o200k_base and 2 MB for cl100k_base. Tokens of up to 7 bytes are compared whole;
// of longer ones a 63-bit keyed hash is. Its key is random, so nobody can make
// another word pass for one, and by chance it never happens.
//
// The vocabularies are OpenAI's, as published with tiktoken under the MIT License;
// go generate takes them from pkoukk/tiktoken-go-loader. The tests compare all counts
// with pkoukk/tiktoken-go.
//
// # Special tokens
//
// Special tokens such as <|endoftext|> are ordinary text, as they are to a chat API.
//
// # Concurrency
//
// An [Encoding] never changes and is safe for concurrent use. It is loaded once, on
// first use, in less than 0.1 s.
//
// # Failure
//
// Loading fails only if the data embedded in the binary is damaged. Counting never
// does: bytes that are not UTF-8 count as the symbols they would be split as, and
// no text has more tokens than bytes.
package bpe

//go:generate go run ./internal/gen
