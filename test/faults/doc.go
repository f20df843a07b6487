// Package faults holds tests of leases under real faults, and nothing else: processes that are
// killed, stopped and ended, and database servers that are stopped, crashed, frozen and cut off,
// while all of them insert into one table whose primary key is the ID.
//
// A test starts processes of its own: the test binary once more, in another role. Such a worker
// opens GORM with the plugin, creates rows, and writes a line to its standard output for every
// commit that the database has acknowledged. In the end the test compares what was acknowledged
// with what is in the table: every row is there once, with the payload that its worker gave it,
// no insert ever met a key that was taken, and no tick of a node number was used by two workers.
//
// Package chaos does the same for a longer time, with faults that it draws from a seed, and without rows: its
// processes write their IDs into files. A few seconds of it run here at night, and by steps that do not
// depend on chance in both tiers. Both let the same checker compare who has used which tick of a node.
//
// The processes work on the databases of package dbtest. The servers that are stopped and crashed
// are private ones, which the tests start on a port and in a directory of their own; they need the
// programs initdb and postgres, mariadb-install-db and mariadbd, and for MySQL what scripts/mysql.sh
// finds or has unpacked. Two drills of the night also need pg_basebackup, and rsync with Galera's library
// libgalera_smm.so. Where these are missing the tests are skipped, because the server that answers may run
// in a container; they fail if SNOWFLAKE_REQUIRE names the database and CI is true.
//
//	SNOWFLAKE_FAULT_ROUNDS=100 go test ./test/faults -run Rounds -v -timeout 1h
//
// runs more rounds than the usual ones. Tier one has one round of each kind and one crash, on SQLite and one
// server; the nightly tier has more of both, on all servers, and faults that are drawn at random.
//
// No test of tier one is decided by how long something takes: a fault that has to happen is made to happen,
// and whoever waits gives up only when nothing at all changes any more, or when the test run ends.
package faults
