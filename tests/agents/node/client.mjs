// Uses `mneme mcp`, or with a token the server at the URL, by a client of the protocol, and prints
// what it sees, the same for each client. usage: node client.mjs sdk|modern|legacy MNEME URL [TOKEN]

import {execFileSync} from 'node:child_process';

const [kind, mneme, url, token] = process.argv.slice(2);
const args = ['--url', url, 'mcp', '--store', 'notes', '--session', 's1'];
const say = (what, ...seen) => console.log(what + ': ' + seen.map(s => JSON.stringify(s)).join(' '));

// What the user says when asked, and what the client heard.
let agrees = false;
const asked = [];
const updated = [];
let wake = () => {};
const elicit = async request => {
  asked.push(request.params.message);
  return agrees ? {action: 'accept', content: {confirm: true}} : {action: 'decline'};
};
const update = notification => { updated.push(notification.params.uri); wake(); };
const heardOf = async uri => {
  while (!updated.includes(uri)) await new Promise(resolve => { wake = resolve; });
};

let client, subscribe;
if (kind === 'sdk') {
  const {Client} = await import('@modelcontextprotocol/sdk/client/index.js');
  const {StdioClientTransport} = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const {ElicitRequestSchema, ResourceUpdatedNotificationSchema} = await import('@modelcontextprotocol/sdk/types.js');
  client = new Client({name: 'test', version: '1'}, {capabilities: {elicitation: {}}});
  client.setRequestHandler(ElicitRequestSchema, elicit);
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, update);
  await client.connect(new StdioClientTransport({command: mneme, args}));
  subscribe = uri => client.subscribeResource({uri});
} else {
  const {Client, StreamableHTTPClientTransport} = await import('@modelcontextprotocol/client');
  const {StdioClientTransport} = await import('@modelcontextprotocol/client/stdio');
  client = new Client({name: 'test', version: '1'}, {capabilities: {elicitation: {form: {}}}, versionNegotiation: {mode: kind}});
  client.setRequestHandler('elicitation/create', elicit);
  client.setNotificationHandler('notifications/resources/updated', update);
  await client.connect(token
    ? new StreamableHTTPClientTransport(new URL(url + '/mcp'), {requestInit: {headers: {authorization: 'Bearer ' + token}}})
    : new StdioClientTransport({command: mneme, args}));
  subscribe = kind === 'modern' ? uri => client.listen({resourceSubscriptions: [uri]}) : uri => client.subscribeResource({uri});
}

const call = async (name, args) => {
  const result = await client.callTool({name, arguments: args});
  return {...result.structuredContent, isError: result.isError ?? false, shown: result.content.map(c => c.text).join('\n')};
};

say('tools', (await client.listTools()).tools.map(t => t.name).sort());
say('memory', (await call('memory', {command: 'view', path: '/memories/a.md'})).shown);
const first = await call('write', {path: '/memories/b.md', text: 'first', if_version: 'none', message: 'why'});
say('write', first.path, first.seq, first.created);
const second = await call('write', {path: '/memories/b.md', text: 'second', if_version: first.version});
say('write if_version', second.seq, second.created);
const stale = await call('write', {path: '/memories/b.md', text: 'third', if_version: first.version});
say('write if_version of the past', stale.isError, stale.error.kind, stale.error.retry);
const read = await call('read', {path: '/memories/b.md'});
say('read', read.shown.replace(second.version, 'VERSION'));
say('list', (await call('list', {})).entries.map(e => [e.path, e.size]));
const found = await call('search', {query: 'SECOND', ignore_case: true});
say('search', found.shown);
say('history', (await call('history', {path: '/memories/b.md'})).versions.map(v => [v.seq, v.op, v.by, v.message ?? '']));
say('diff', (await call('diff', {path: '/memories/b.md'})).diff.split('\n').slice(2));
const restored = await call('restore', {path: '/memories/b.md', version: first.version});
say('restore', restored.seq, (await call('read', {path: '/memories/b.md'})).shown.replace(restored.version, 'VERSION'));
if (!token) say('conflicts', (await call('conflicts', {action: 'list'})).shown);
say('unknown', (await call('read', {path: '/memories/b.md', sudo: true})).shown);

await call('write', {path: '/memories/d/1.md', text: '1'});
await call('write', {path: '/memories/d/2.md', text: '2'});
say('delete, declined', (await call('memory', {command: 'delete', path: '/memories/d'})).shown);
agrees = true;
say('delete, agreed', (await call('memory', {command: 'delete', path: '/memories/d'})).shown);
say('asked', asked);

say('resource', (await client.readResource({uri: 'mneme://notes/a.md'})).contents.map(c => [c.mimeType, c.text]));
await client.readResource({uri: 'mneme://notes/none'}).then(() => say('there is none'), e => say('no resource', e.code));
await subscribe('mneme://notes/a.md');
execFileSync(mneme, ['--url', url, 'write', 'notes:/a.md'], {input: 'another session\n'});
await heardOf('mneme://notes/a.md');
say('updated', [...new Set(updated)]);
await client.close();
process.exit(0);
