// Creates a queue and posts a message with a client whose types come from openapi.yaml, and reads both back.
//
// Usage: node post.js URL PROJECT
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { argv: string[] };

const [baseUrl, project] = process.argv.slice(2);
// The serializer is for filters by metadata in a list of queues.
const client = createClient<paths>({ baseUrl, querySerializer: { object: { style: "form", explode: true } } });
const header = { "Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": project };
const path = { queue_name: "typescript" };

await client.PUT("/v2/queues/{queue_name}", { params: { path, header }, body: { team: "billing" } });
const queues = await client.GET("/v2/queues", { params: { header, query: { metadata: { team: "billing" } } } });
if (queues.error) throw new Error(queues.error.description);
console.log("Queues of the team:", queues.data.queues.map((queue) => queue.name).join(", "));

const posted = await client.POST("/v2/queues/{queue_name}/messages", {
  params: { path, header },
  body: { messages: [{ ttl: 300, body: { typed: "yes" } }] },
});
if (posted.error) throw new Error(posted.error.description);
const message_id = posted.data.resources[0]?.split("/").at(-1) ?? "";

const message = await client.GET("/v2/queues/{queue_name}/messages/{message_id}", {
  params: { path: { ...path, message_id }, header },
});
if (message.error) throw new Error(message.error.description);
console.log("The message:", message.data.body);
