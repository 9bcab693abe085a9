package redisledger

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed swap.lua
var swapLua string

var swap = redis.NewScript(swapLua)

const (
	// maxValues is how many small values are kept; of more, any goes.
	maxValues = 4096
	// maxValue bounds a name and a value, in bytes.
	maxValue = 1024
	// valuesStay is how long they do when nobody changes any.
	valuesStay = 7 * 24 * time.Hour
)

// Values returns the small values that processes share beside their limits, by name.
// With SwapValue it is a learn.Store.
func (l *Ledger) Values(ctx context.Context) (map[string][]byte, error) {
	all, err := l.client.HGetAll(ctx, l.prefix+"values").Result()
	if err != nil {
		return nil, fmt.Errorf("redisledger: %w", err)
	}
	values := make(map[string][]byte, len(all))
	for name, v := range all {
		values[name] = []byte(v)
	}
	return values, nil
}

// SwapValue makes a value another one, if it still is the old one; an empty old value
// says that there is none. It reports whether it did. Names and values have at most
// 1024 bytes. The 4096 values go when nobody has changed any for a week, and more
// than that take the places of others.
func (l *Ledger) SwapValue(ctx context.Context, name string, old, value []byte) (bool, error) {
	if name == "" || len(value) == 0 || len(name) > maxValue || len(value) > maxValue {
		return false, fmt.Errorf("redisledger: a name and a value must have 1 to %d bytes, not %d and %d", maxValue, len(name), len(value))
	}
	n, err := swap.Run(ctx, l.client, []string{l.prefix + "values"}, name, old, value, maxValues, valuesStay.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("redisledger: %w", err)
	}
	return n == 1, nil
}
