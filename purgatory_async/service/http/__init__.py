"""The wire: HTTP/1.1 connections, answers, held requests and streams of events."""
