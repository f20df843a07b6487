package model_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// A proof is a scene in which all clauses hold, and what breaks in it if a mechanism is taken away.
type proof struct {
	scene
	atNight faults // what may happen at night in addition
	mutants map[mechanism]string
}

func proofs() map[string]proof {
	own, other, beside := program{here, here}, program{there, here}, program{here, there}
	copied := program{there, there}
	return map[string]proof{
		"one store": {
			scene{programs: []program{own, own}, nodes: 1, ticks: 3, span: 1, starts: 1, faults: faults{lost: 1, late: 1}},
			faults{crash: 1},
			map[mechanism]string{
				markIsSoughtAgain: waiting, extensionComparesVersion: oneMaker, silenceIsNoGrant: oneMaker,
			},
		},
		"a store that is emptied": {
			scene{
				programs: []program{own, own}, nodes: 2, ticks: 2, span: 1, starts: 2, inUse: true,
				faults: faults{stop: 1, empty: 1},
			},
			faults{late: 1, crash: 1},
			map[mechanism]string{firstComparesMark: grants, operatorWaits: oneMaker},
		},
		"two stores": {
			scene{programs: []program{own, other}, nodes: 1, ticks: 2, span: 1, starts: 1},
			faults{},
			map[mechanism]string{noteIsCompared: noting, noteIsReadAgain: noting},
		},
		"rows in a database that is read-only": {
			scene{programs: []program{beside, copied}, nodes: 1, ticks: 2, span: 1, starts: 1, readOnly: true},
			faults{},
			map[mechanism]string{rowsWaitForNote: noting},
		},
		"a database that is copied": {
			scene{
				programs: []program{beside, copied}, nodes: 1, ticks: 3, span: 1, starts: 1, inUse: true,
				faults: faults{copy: 1},
			},
			faults{},
			map[mechanism]string{copyIsSought: copies, copyIsSoughtByVersion: copies},
		},
		"a copy that comes after the look": {
			scene{
				programs: []program{beside, copied}, nodes: 2, ticks: 3, span: 1, starts: 1, inUse: true,
				faults: faults{copy: 1, twice: 1},
			},
			faults{},
			map[mechanism]string{keyIsJudge: oneRow, ownRowIsNoWitness: strangers, contestLeaves: leaving},
		},
		"a backup in place of its database": {
			scene{
				programs: []program{beside, beside}, nodes: 1, ticks: 2, span: 1, starts: 2, inUse: true,
				faults: faults{backup: 1, restore: 1, stop: 1},
			},
			faults{late: 1},
			map[mechanism]string{operatorWaits: oneMaker},
		},
		"leases and notes that are removed": {
			scene{
				programs: []program{own, own}, nodes: 1, ticks: 2, span: 1, starts: 2, inUse: true,
				faults: faults{remove: 1, stop: 1},
			},
			faults{late: 1},
			map[mechanism]string{operatorWaits: oneMaker},
		},
		"a store or a note that is lost under running programs": {
			scene{
				programs: []program{own, own}, nodes: 2, ticks: 2, span: 1, starts: 1, inUse: true,
				faults: faults{forget: 1},
			},
			faults{backup: 1, wild: 1},
			map[mechanism]string{listComparesMark: grants},
		},
		"leases that are moved": {
			scene{
				programs: []program{own, other}, nodes: 2, ticks: 2, span: 1, starts: 2,
				faults: faults{move: 1},
			},
			faults{late: 1},
			map[mechanism]string{moveDrains: oneMaker, moveRaises: oneMaker, firstListsAgain: oneMaker},
		},
	}
}

// ends are the clauses that are judged where a run without faults ends.
func ends() []string { return []string{resting, waiting, leaving} }

func TestLeases(t *testing.T) {
	for name, p := range proofs() {
		t.Run(name, func(t *testing.T) {
			prove(t, &leaseWorld{scene: p.scene}, "")
			for m, broken := range p.mutants {
				prove(t, &leaseWorld{scene: p.scene, without: m}, broken)
			}
		})
	}
	_ = nightly.Enabled
}

func TestCounters(t *testing.T) {
	for name, c := range map[string]struct {
		counterScene
		mutants map[counterMechanism]string
	}{
		"one store": {
			counterScene{programs: []counting{{here, 0, 0, 1}, {here, 0, 0, 1}, {here, 0, 0, 1}}, lost: 1, width: 2},
			nil,
		},
		"two stores": {
			counterScene{programs: []counting{{here, 0, 0, 1}, {there, 0, 0, 1}}, width: 2},
			map[counterMechanism]string{columnIsCompared: oneStore},
		},
		"two remainders": {
			counterScene{programs: []counting{{here, 0, 0, 2}, {there, 0, 1, 2}}, width: 2},
			nil,
		},
		"a remainder and all numbers": {
			counterScene{programs: []counting{{here, 0, 0, 1}, {there, 0, 1, 2}}, width: 2},
			map[counterMechanism]string{modulusIsCompared: oneStore},
		},
		"counters that are emptied": {
			counterScene{programs: []counting{{here, 0, 0, 1}, {here, 1, 0, 1}}, empty: 1, width: 1},
			map[counterMechanism]string{firstClaimComparesMark: oneCounter, claimComparesIdentity: oneCounter},
		},
		"counters that went back": {
			counterScene{programs: []counting{{here, 0, 0, 1}, {here, 0, 0, 1}}, restore: 1, width: 2},
			map[counterMechanism]string{
				refusalGivesBlockUp: goingOn, refusalAsks: goingOn, claimComparesAbove: goingOn,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			prove(t, &counterWorld{counterScene: c.counterScene}, "")
			for m, broken := range c.mutants {
				prove(t, &counterWorld{counterScene: c.counterScene, without: m}, broken)
			}
		})
	}
}
