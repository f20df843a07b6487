package main

import "time"

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
