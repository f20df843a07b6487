package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestOrphansAreJudgedByWhatTheTargetWillHold(t *testing.T) {
	t.Parallel()
	mergeHostile(t, orphanPlans())
}

func TestOrphansAreJudgedByWhatTheTargetWillHoldBetweenKinds(t *testing.T) {
	t.Parallel()
	mergeBetweenKinds(t, orphanPlans())
}

// orphanPlans are plans that set references, or have conditions for them, and say what becomes of orphans.
func orphanPlans() map[string]hostile {
	one, three := id(1, 1), id(2, 1)
	const parents = "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))"
	firstParents, secondParents := "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO p VALUES (1, 'd'), (2, 'e'), (3, 'f')"
	child := func(orphans string, set map[string]string, references ...merge.Reference) *merge.TablePlan {
		return &merge.TablePlan{Policy: merge.Copy, Orphans: orphans, Set: set, References: references}
	}
	counted := func() *merge.TablePlan { return &merge.TablePlan{Policy: merge.Copy, Renumber: true} }

	return map[string]hostile{
		"a reference in a column with decimals to keys that change": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p DECIMAL(20,2))"},
			first:  []string{"INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (" + one + ", 2)"},
			second: []string{"INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (" + three + ", 2)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": child("", nil, merge.Reference{Column: "p", Table: "p"})},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c WHERE p = 4", "1"}}},
		"a reference in a text to keys that change": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p VARCHAR(9), tag VARCHAR(9))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", '2', 'b')"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", '2', 'e')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": child("", nil, merge.Reference{Column: "p", Table: "p"})},
			asks:   [][2]string{{"SELECT p FROM c ORDER BY id", "2,5"}}},
	}
}
