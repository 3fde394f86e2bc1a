-- Notifies all waiters of a queue, whether it exists in this store or not.
--
-- Returns 'done'.
notify(4294967295, 0)
return 'done'
