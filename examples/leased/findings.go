package main

import (
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// findings are the results of comparing the rows with the tenures.
type findings struct {
	stretches []stretch
	rows      int
	different int // distinct IDs of the rows
	told      int // IDs that a process reported as stored
	missing   int // reported IDs that are not in the table
	outside   int // IDs that are in no window of the process that issued them
}

// stretch holds the IDs of one tenure.
type stretch struct {
	*tenure
	ids         []int64   // in order
	first, last time.Time // of the IDs
}

func (s *story) find() (f findings, err error) {
	for _, t := range s.tenures {
		f.stretches = append(f.stretches, stretch{tenure: t})
	}
	stored := map[int64]bool{}
	for _, order := range s.orders {
		id := order.ID.Int64()
		stored[id] = true
		parts, err := generator.Default().Decompose(id)
		if err != nil {
			return f, err
		}
		i := slices.IndexFunc(f.stretches, func(made stretch) bool {
			return made.process() == order.MadeBy && made.node == parts.Node &&
				!parts.Time.Before(made.from) && parts.Time.Before(made.until)
		})
		if i < 0 {
			f.outside++
			continue
		}
		made := &f.stretches[i]
		if len(made.ids) == 0 {
			made.first = parts.Time
		}
		made.ids, made.last = append(made.ids, id), parts.Time
	}
	f.rows, f.different = len(s.orders), len(stored)
	for _, p := range s.processes {
		f.told += len(p.ids)
		for _, id := range p.ids {
			if !stored[id] {
				f.missing++
			}
		}
	}
	return f, nil
}
