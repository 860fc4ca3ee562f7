/** A port for the quickstart and the demo: the usual one, unless something listens on it. */

import { AddressProblem, probe } from '../src/process/system/listen-address.ts'

/** The wanted port if it is free, else 0, so that the system chooses one. */
export function freePort(wanted: number): number {
  try {
    return probe({ host: '127.0.0.1', port: wanted }).port
  } catch (error) {
    if (error instanceof AddressProblem) return 0
    throw error
  }
}
