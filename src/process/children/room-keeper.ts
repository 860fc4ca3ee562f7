/** The room that the workers of a machine without Redis share. What was spent outlives the gateway, in `data_dir`. */

import { join } from 'node:path'
import { type Amount, type Ask, CommonRoom, type RoomReport, type Taken } from '../../capacity/common-room.ts'
import type { Contender } from '../../capacity/organization-turns.ts'
import type { Config } from '../../config/config.ts'
import { readSmallFile, writeSmallFile } from '../../sqlite/private-files.ts'

const FILE = 'provider-spend.json'
const SAVE_MS = 1000

export class RoomKeeper {
  private readonly room = new CommonRoom()
  private file: string | undefined
  private saving: ReturnType<typeof setTimeout> | undefined

  use({ dataDir, ledger, capacity }: Config): void {
    if (this.file !== undefined || ledger.kind === 'redis' || capacity === undefined) return
    this.file = join(dataDir, FILE)
    this.room.restore(readSmallFile(this.file))
  }

  take(asks: readonly Ask[], isLow: boolean, worker: number, contenders?: readonly Contender[]): Taken {
    const taken = this.room.take(asks, isLow, String(worker), contenders)
    if (asks.some(({ meter }) => meter.unit === 'micro_usd')) this.saveSoon()
    return taken
  }

  give(amounts: readonly Amount[], worker: number): void {
    this.room.give(amounts, String(worker))
    if (amounts.some(({ meter }) => meter.unit === 'micro_usd')) this.saveSoon()
  }

  renew(held: readonly Amount[], worker: number): void {
    this.room.renew(held, String(worker))
  }

  report(reports: readonly RoomReport[]): void {
    this.room.report(reports)
  }

  /** The places of a worker that is gone are free. */
  gone(worker: number): void {
    this.room.free(String(worker))
  }

  close(): void {
    if (this.saving === undefined) return
    clearTimeout(this.saving)
    this.save()
  }

  private saveSoon(): void {
    this.saving ??= setTimeout(() => this.save(), SAVE_MS)
  }

  private save(): void {
    this.saving = undefined
    if (this.file === undefined) return
    writeSmallFile(this.file, JSON.stringify(this.room.spent()))
  }
}
