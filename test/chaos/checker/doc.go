// Package checker decides whether processes have made an ID twice, or used a tick of a node twice.
//
// It shares no code with the library that it checks: it reads files of plain numbers, sorts them and
// compares neighbors. Each process writes a journal of its own, one line for each run of IDs that
// have no gap between them:
//
//	1790000000123456 240518168576004097 20
//
// That is when the process had them, in real microseconds since 1970 whatever its clock says, the
// first ID, and how many there are. So what the checker finds can be found with sort and awk too.
//
// The lowest 12 bits of an ID of the default layout are its sequence number, and what stands above
// them is one number for its tick and its node. Two processes that have this number in common were
// granted the same tick of the same node.
package checker
