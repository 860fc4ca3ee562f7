/** Sends one request over a transport and prints its outcome: `one-request.ts sockets|fetch URL`. */

import { Exchanged, wayOf } from './exchanges.ts'

const [, , name = '', url = ''] = process.argv
using way = wayOf(name === 'fetch' ? 'fetch' : 'sockets')
process.stdout.write(JSON.stringify(await new Exchanged(way, url).done))
