package snowflakeplugin_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func ExampleParseID() {
	id, err := snowflakeplugin.ParseID("1541815603606036480")
	fmt.Println(id, err)

	_, err = snowflakeplugin.ParseID("-1")
	fmt.Println(errors.Is(err, snowflakeplugin.ErrInvalidID))
	fmt.Println(err)
	// Output:
	// 1541815603606036480 <nil>
	// true
	// snowflakeplugin: invalid id "-1": it has a sign; an id is 1 to 19 decimal digits
}

func ExampleID_json() {
	type Order struct {
		ID    snowflakeplugin.ID
		Total int64
	}
	// JavaScript would read a number of this size as 9007199254740992.
	out, _ := json.Marshal(Order{ID: 9007199254740993, Total: 990})
	fmt.Println(string(out))

	var order Order
	err := json.Unmarshal([]byte(`{"ID":"9007199254740993","Total":990}`), &order)
	fmt.Println(order.ID, err)

	// A number this large may have been rounded already, so it is refused.
	err = json.Unmarshal([]byte(`{"ID":9007199254740993}`), &order)
	fmt.Println(order.ID, errors.Is(err, snowflakeplugin.ErrInvalidID))
	// Output:
	// {"ID":"9007199254740993","Total":990}
	// 9007199254740993 <nil>
	// 9007199254740993 true
}

func ExampleID_Base62() {
	id := snowflakeplugin.ID(1541815603606036480)
	short := id.Base62()
	fmt.Println(short)

	back, err := snowflakeplugin.ParseBase62(short)
	fmt.Println(back == id, err)
	// Output:
	// 1ptWyK4WgZU
	// true <nil>
}
