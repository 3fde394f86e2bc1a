// Posts a message with a client whose types come from openapi.yaml, and reads it back.
//
// Usage: node post.js URL PROJECT
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { argv: string[] };

const [baseUrl, project] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });
const header = { "Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": project };
const path = { queue_name: "typescript" };

const posted = await client.POST("/v2/queues/{queue_name}/messages", {
  params: { path, header },
  body: { messages: [{ ttl: 300, body: { typed: "yes" } }] },
});
if (posted.error) throw new Error(posted.error.description);

const listed = await client.GET("/v2/queues/{queue_name}/messages", {
  params: { path, header, query: { echo: true, limit: 1 } },
});
if (listed.error) throw new Error(listed.error.description);
const href: string | undefined = listed.data.messages[0]?.href;
if (href !== posted.data.resources[0]) throw new Error(`${href} was listed`);
