-- Rows may have several records; see pack.go. Their tables don't change. This step keeps nodes
-- of earlier versions, which can't read such rows, from starting.
--
-- Packs are compressed already, and stay in their row while two of them fit a page.
ALTER TABLE agentd.events SET (toast_tuple_target = 4080);
DO $$
DECLARE
    month integer;
BEGIN
    FOR month IN SELECT m.month FROM agentd.months m WHERE to_regclass('agentd.events_' || m.month) IS NOT NULL LOOP
        EXECUTE format('ALTER TABLE agentd.events_%s SET (toast_tuple_target = 4080)', month);
    END LOOP;
END
$$;
