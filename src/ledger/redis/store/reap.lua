-- Ends what is overdue, at most a thousand a call: live reservations are lost and charged the greater of their progress
-- and their floor, ended ones are forgotten.
--
-- keys: scopes reservations deadlines audit usage nodes
-- arguments:
-- outcomes:
--   reaped count

return { 'reaped', reap() }
