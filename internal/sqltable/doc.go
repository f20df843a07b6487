// Package sqltable makes the requests of stores that keep their state in one table of a database. What a
// request has been answered is committed, whatever the application does with its connections, and a
// request that somebody else's transaction delays is tried again. Packages sqllease and sqlsegment are
// built on it. It imports no driver.
package sqltable
