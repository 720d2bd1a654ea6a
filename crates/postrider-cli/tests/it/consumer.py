"""A consumer as another team would write it: it reads its queue, publishes what follows, and reports.

consumer.py AMQP_URL SERVER_URL TOKEN CONSUMER CHILD_TOPIC receipts|http [FAIL_FIRST]
"""

import json
import sys
import urllib.request

import pika

amqp, server, token, consumer, child_topic, reports_by = sys.argv[1:7]
fails_first = len(sys.argv) > 7
queue = f"postrider.{consumer}"


def post(path, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/api/v1{path}", json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=30).read()


def report(channel, event, body):
    body["consumerId"] = consumer
    if reports_by == "http":
        post(f"/events/{event['eventId']}/consumptions", body)
    else:
        body["eventId"] = event["eventId"]
        channel.basic_publish("", "postrider.receipts", json.dumps(body), pika.BasicProperties(delivery_mode=2))


def handle(channel, method, properties, body):
    event = json.loads(body)
    # The broker counts how often a message came back from a retry queue.
    is_first = not (properties.headers or {}).get("x-death")
    if fails_first and is_first:
        channel.basic_publish("", f"{queue}.retry.2", body, properties)
        report(channel, event, {"success": False, "willRetry": True, "errorMessage": "the gateway is down"})
        print("failed", event["eventId"])
    else:
        keep = {"traceId": event["traceId"], "parentEventId": event["eventId"]}
        post("/events", {"topic": child_topic, "payload": {"of": consumer}, **keep})
        report(channel, event, {"success": True})
        print("consumed", event["eventId"])
    channel.basic_ack(method.delivery_tag)


channel = pika.BlockingConnection(pika.URLParameters(amqp)).channel()
channel.basic_qos(prefetch_count=1)
channel.basic_consume(queue, handle)
print("reading", queue)
channel.start_consuming()
