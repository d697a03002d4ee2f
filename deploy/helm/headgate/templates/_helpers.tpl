{{- define "headgate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "headgate.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "headgate.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "headgate.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.persistence.enabled -}}
{{- end -}}

{{- /* The port of clients: a variable's, else the configuration's, else what Headgate takes of its own accord. */ -}}
{{- define "headgate.port" -}}
{{- $server := .Values.config.server | default dict -}}
{{- $decisionsOnly := and .Values.config.decisions (not .Values.config.flags) -}}
{{- int (.Values.env.PORT | default $server.port | default (ternary 8080 8030 (not (empty $decisionsOnly)))) -}}
{{- end -}}

{{- define "headgate.scheme" -}}
{{- $server := .Values.config.server | default dict -}}
{{- $tls := ternary .Values.env.TLS_ENABLED (not (empty $server.tls)) (hasKey .Values.env "TLS_ENABLED") -}}
{{- ternary "HTTPS" "HTTP" (has (toString $tls | lower) (list "true" "yes" "1")) -}}
{{- end -}}

{{- /* A duration such as 1m30s, 1.5m or 500ms in seconds, the last one begun. */ -}}
{{- define "headgate.seconds" -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "([0-9]+[.]?[0-9]*|[.][0-9]+)(ms|h|m|s)" (toString .) -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf (float64 (trimSuffix $unit .)) (get $units $unit)) -}}
{{- end -}}
{{- ceil (divf $sum 1000) -}}
{{- end -}}

{{- /* What a stop takes at most: not ready, then draining, then what closes last. */ -}}
{{- define "headgate.stopSeconds" -}}
{{- $server := .Values.config.server | default dict -}}
{{- $drain := include "headgate.seconds" ($server.drainDelay | default "5s") | int -}}
{{- $grace := include "headgate.seconds" (.Values.env.GRACEFUL_SHUTDOWN_TIMEOUT | default $server.grace | default "30s") | int -}}
{{- add $drain $grace 10 -}}
{{- end -}}

{{- define "headgate.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
