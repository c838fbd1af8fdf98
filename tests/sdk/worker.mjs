// Has the SDK's worker bring a store into a directory, and what a program writes there into the store.
// usage: node worker.mjs PACKAGE URL KEY STORE DIRECTORY
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

const [name, baseURL, authToken, store, workdir] = process.argv.slice(2);
const { Anthropic } = await import(name);
const { SessionMemoryStores } = await import(new URL(`./node_modules/${name}/tools/agent-toolset/memories.mjs`, import.meta.url));

const stores = new SessionMemoryStores(new Anthropic({ baseURL, authToken, apiKey: null }), { workdir });
const mount_path = join(workdir, 'notes');
await stores.download({ resources: [{ type: 'memory_store', memory_store_id: store, access: 'read_write', name: 'notes', mount_path }] });
await stores.syncAll(false);
appendFileSync(join(mount_path, 'note.md'), 'two\n');
appendFileSync(join(mount_path, 'written.bin'), 'text');
await stores.syncAll(false);
await stores.finish();
await stores.dispose();
