package main

import (
	"math"
	"slices"
)

// spread is how values are distributed.
type spread struct {
	Count int     `json:"count"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func spreadOf(values []float64) *spread {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	at := func(share float64) float64 { return round(values[int(math.Ceil(share*float64(len(values))))-1]) }
	return &spread{Count: len(values), Min: round(values[0]), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: round(values[len(values)-1])}
}

func round(value float64) float64 { return math.Round(value*1000) / 1000 }
