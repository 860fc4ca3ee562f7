/** Owns the shared ledger of a directory until it is killed. Arguments: the directory; `takeover` for a successor. */

import { LedgerServer } from '../../src/ledger/embedded/socket/ledger-server.ts'

const [directory = '', takeover] = process.argv.slice(2)
new LedgerServer(directory, { isTakeover: takeover === 'takeover' })
process.stdout.write('open\n')
