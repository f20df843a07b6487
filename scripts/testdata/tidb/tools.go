// Package tidb pins the server of TiDB that scripts/tidb.sh builds. This module is below testdata, because
// no loop over the modules of this repository may enter it: it requires some hundred modules that nothing
// here uses, and needs minutes to build.
package tidb

import _ "github.com/pingcap/tidb/pkg/server" // so that "go mod tidy" keeps the requirement
