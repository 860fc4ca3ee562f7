-- Ends overdue reservations, at most 1000 a call: live ones become lost and are charged the greater of their progress
-- and their floor, ended ones are deleted.
--
-- keys: scopes reservations deadlines audit usage nodes crossings counters ends
-- arguments:
-- outcomes:
--   reaped count

return { 'reaped', reap() }
