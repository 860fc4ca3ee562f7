/** Sends one request and prints its outcome: `one-request.ts URL`. */

import { HttpClient } from '../../src/transport/client.ts'
import { Exchanged } from './exchanges.ts'

const [, , url = ''] = process.argv
const client = new HttpClient()
process.stdout.write(JSON.stringify(await new Exchanged(client, url).done))
