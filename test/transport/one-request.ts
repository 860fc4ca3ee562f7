/** Sends one request and prints its outcome: `one-request.ts URL`. */

import { Exchanged, TestClient } from './exchanges.ts'

const [, , url = ''] = process.argv
using client = new TestClient()
process.stdout.write(JSON.stringify(await new Exchanged(client, url).done))
