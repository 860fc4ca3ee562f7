/**
 * Whether connections fail because no file descriptor is left. Bun reports such a connection as refused, or its host as
 * not found, so that the provider looks as if it were down.
 */

import { closeSync, openSync } from 'node:fs'
import { hasCode } from '../core/system-error.ts'

/** `EMFILE`: this process has as many as it may have. `ENFILE`: the whole system has. */
export type DescriptorShortage = 'EMFILE' | 'ENFILE'

let report: ((code: DescriptorShortage) => void) | undefined

/** Sets what is called for each connection that fails for lack of descriptors. One per process. */
export function onDescriptorShortage(reported: (code: DescriptorShortage) => void): void {
  report = reported
}

/** Call it after a connection has failed. */
export function checkDescriptors(): void {
  if (report === undefined) return
  try {
    closeSync(openSync('/dev/null', 'r'))
  } catch (error) {
    if (hasCode(error, 'EMFILE')) report('EMFILE')
    else if (hasCode(error, 'ENFILE')) report('ENFILE')
  }
}
