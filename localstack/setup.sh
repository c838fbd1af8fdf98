#!/bin/sh
# LocalStack runs this when it is ready: it makes the bucket, the table and the
# queue that mneme uses. `mneme setup` then adds what the table has to hold.
set -eu

awslocal s3api create-bucket --bucket mneme
awslocal dynamodb create-table --table-name mneme --billing-mode PAY_PER_REQUEST \
	--attribute-definitions AttributeName=store_id,AttributeType=S AttributeName=sk,AttributeType=S \
	--key-schema AttributeName=store_id,KeyType=HASH AttributeName=sk,KeyType=RANGE
awslocal dynamodb wait table-exists --table-name mneme
awslocal dynamodb update-time-to-live --table-name mneme \
	--time-to-live-specification Enabled=true,AttributeName=expires
awslocal sqs create-queue --queue-name mneme-events
