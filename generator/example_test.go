package generator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// This creates one generator for each process. Every process needs its own node number.
func Example() {
	g, err := generator.New(generator.Default(), generator.FixedNode(7))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	first, err := g.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := make([]int64, 1000)
	if err := g.Fill(ctx, batch); err != nil {
		fmt.Println(err)
		return
	}
	parts, err := g.Layout().Decompose(batch[999])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("greater:", batch[0] > first && batch[999] > batch[0])
	fmt.Println("node:", parts.Node)
	fmt.Println("made now:", time.Since(parts.Time).Abs() < time.Minute)
	// Output:
	// greater: true
	// node: 7
	// made now: true
}

func ExampleLayout_Diagram() {
	fmt.Print(generator.Twitter().Diagram(1541815603606036480))
	// Output:
	// 1541815603606036480  layout twitter, 63 bits
	// bit  part        bits                                       value
	// 62   time        00101010110010110100001000111110110001000  367597485448  2022-06-28T16:07:40.105Z
	// 21   datacenter  01011                                      11
	// 16   worker      11010                                      26
	// 11   sequence    000000000000                               0
}

// This finds the rows of a day by their primary key alone.
func ExampleLayout_Range() {
	day := time.Date(2026, time.March, 4, 0, 0, 0, 0, time.UTC)
	lo, hi, err := generator.Default().Range(day, day.AddDate(0, 0, 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("SELECT * FROM orders WHERE id >= %d AND id < %d\n", lo, hi)
	// Output:
	// SELECT * FROM orders WHERE id >= 154739618611200000 AND id < 155102006476800000
}

// The items of an order are on the shard of the order.
func ExampleGenerator_NextLike() {
	const shards = 16
	g, err := generator.New(generator.Default(), generator.FixedNode(7), generator.WithShards(shards))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	order, err := g.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		item, err := g.NextLike(ctx, order)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("same shard:", item%shards == order%shards)
	}
	// Output:
	// same shard: true
	// same shard: true
	// same shard: true
}

// This is a custom layout with a region, a machine in it, and ticks of ten milliseconds.
func ExampleLayout() {
	l := generator.Layout{
		Name:         "regions",
		Epoch:        time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
		Tick:         10 * time.Millisecond,
		TimeBits:     38,
		Node:         []generator.Field{{Name: "region", Bits: 3}, {Name: "machine", Bits: 10}},
		SequenceBits: 12,
	}
	if err := l.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	node, err := l.PackNode(5, 300)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("node", node, "of", l.MaxNode())
	fmt.Println("until", l.End().Format(time.DateOnly))
	// Output:
	// node 5420 of 8191
	// until 2113-02-08
}
