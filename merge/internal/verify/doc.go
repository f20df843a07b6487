// Package verify proves a merge, with code that no part of the merge uses.
//
// It takes from the plan only what was promised to its author: the policies, conditions, references and sums.
// From the sources it computes what the target has to hold, and compares that with what is there:
//
//   - every row of every table, whole tables in one statement each, in whatever order the databases return
//     them. The comparison is a sum of the hashes of the rows, so the order does not matter, and no
//     memory grows with the table. See [digest].
//   - every reference: the row of the child and the content of its parent, joined by the source before and by
//     the target after, must be the same pair. See [tally].
//   - rows that became one: the row that stays is one of those that were equal, and the one that the policy
//     says; totals are added up again.
//   - names: whoever has a new name lost the old one to a row that comes first, and the new name has the form
//     that the plan says.
//   - what the target has besides rows: its indexes, constraints, defaults, triggers and the like are those
//     that the run has stored before the first row, and its counters have not fallen.
//   - keys of the target that occur twice, references to nothing, counters behind the keys, and the sums
//     that the plan conserves.
//
// How keys move is not computed as the merge does it. The package looks in the target where the keys of each
// server begin. If these are not the keys of that server moved by one number, the rows differ.
//
// It works on database/sql with connections of its own, reads the catalogs by itself, and writes nothing.
// test/policy forbids it to import any package of the merge.
package verify
