{{- define "purgatory.name" -}}
{{- if contains "purgatory" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-purgatory" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "purgatory.selector" -}}
app.kubernetes.io/name: purgatory
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "purgatory.metadata" -}}
name: {{ include "purgatory.name" . }}
labels:
  {{- include "purgatory.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
