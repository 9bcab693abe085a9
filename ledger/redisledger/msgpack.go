package redisledger

import "encoding/binary"

// The little of MessagePack that the scripts' arguments need.

// appendNumber appends a whole number. Lua counts in doubles, which hold those up
// to 2^53.
func appendNumber(b []byte, v int64) []byte {
	switch {
	case 0 <= v && v < 1<<7:
		return append(b, byte(v))
	case 0 <= v && v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

// appendString appends at most 64 KiB of bytes.
func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s))), s...)
}

// appendArray begins an array of n elements.
func appendArray(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}
