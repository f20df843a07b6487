// Asks for three IDs with the fetch of Node. They are texts, and exact as BigInt.
const address = process.argv.at(-1);
const answer = await fetch(`http://${address}/snowflake.v1.IDService/Next`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ count: 3 }),
});
const { ids } = await answer.json();
console.log(ids.map((id) => BigInt(id).toString()).join(" "));
