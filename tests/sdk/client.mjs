// Makes calls with an SDK, one JSON object a line of standard input, and prints a line for each.
// usage: node client.mjs PACKAGE URL
import { createInterface } from 'node:readline';

const [name, baseURL] = process.argv.slice(2);
const { Anthropic } = await import(name);

for await (const line of createInterface({ input: process.stdin })) {
  const { op, id, params, once, all, credential } = JSON.parse(line);
  const [group, method] = op.split('.');
  const stores = new Anthropic({ baseURL, apiKey: credential }).beta.memoryStores;
  const options = once ? { headers: { 'x-idempotency-key': once } } : {};
  let answer;
  try {
    const resource = group === 'stores' ? stores : stores[group];
    const asked = resource[method](...(id ? [id] : []), params, options);
    if (all) {
      answer = { data: [] };
      for await (const one of asked) answer.data.push(one);
    } else {
      const got = await asked;
      answer = method === 'list' ? { data: got.data, next_page: got.next_page } : { data: [got] };
    }
  } catch (e) {
    answer = { failure: { status: e.status ?? 0, type: e.type ?? e.message, request_id: e.requestID ?? '', class: e.constructor.name, body: e.error } };
  }
  console.log(JSON.stringify(answer));
}
