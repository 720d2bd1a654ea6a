-- Events with these ids. $1 event ids as JSON.
SELECT seq FROM postrider_event WHERE event_id = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
