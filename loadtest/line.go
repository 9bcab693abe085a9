package main

import (
	"context"

	"github.com/paceline-go/paceline/ledger"
)

// inversions is what the ledger counted in its line; false when it keeps none.
func inversions(ctx context.Context, l ledger.Ledger) (s ledger.LineState, ok bool, err error) {
	line, ok := l.(ledger.Line)
	if !ok {
		return s, false, nil
	}
	s, err = line.Inspect(ctx)
	return s, err == nil, err
}
